//! What listens: connections, and how much of them there may be.
//!
//! ```text
//! a place in all ─ accept ─ a place of its address ─ TLS ─┬─ headers ─ request ─ body ─ answer ─┐
//!   waited for               else closed            10 s  └──10 s──────────────10 KiB in 10 s───┤
//!                                                         ▲                                     │
//!                                                         └─────────── idle, 60 s ──────────────┘
//! ```
//! Nothing of a client is waited for without an end, and no address gets all places; the numbers are [`Timeouts`] and
//! [`Places`], both from `limits` of the configuration. A request that waits for events is no idle one: it is answered
//! when something happens, and its connection counts as long as it is there.
//!
//! | file | what |
//! |---|---|
//! | here | accepts, speaks TLS and HTTP, ends in order |
//! | `listener/places.rs` | how many connections there are, in all and of each address |
//! | `listener/watched.rs` | a connection that is closed where its client does nothing |
//! | `listener/paced.rs` | a body that comes in time |
//! | `listener/descriptors.rs` | how many connections the descriptors of this process are enough for |

mod descriptors;
mod paced;
mod places;
mod watched;

pub use descriptors::Descriptors;
pub use paced::too_slow;
pub use places::Places;

use crate::access::certificates::Names;
use crate::forwarded::Proxies;
use crate::problem::Problem;
use crate::tls::Certificate;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::future::FutureExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use paced::Paced;
use places::Place;
use rustix::io::Errno;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;
use vnfm_core::ports::Clock;
use watched::{Activity, Busy, Idleness, Watched};

/// How long clients may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a handshake, and for the headers of a request.
    pub headers: Duration,
    /// In each such time that we wait for a body…
    pub body: Duration,
    /// …so many bytes of it come.
    pub body_bytes: u64,
    /// For doing nothing: between requests, and while an answer is to be read.
    pub idle: Duration,
    /// Streams of one connection of HTTP/2 at a time.
    pub streams: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(10),
            body: Duration::from_secs(10),
            body_bytes: 10 * 1024,
            idle: Duration::from_mins(1),
            streams: 100,
        }
    }
}

/// The most bytes that the headers of a request have, and that are read ahead of it.
const HEADERS: usize = 128 * 1024;
/// How long a connection that is to end may take to say so.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long after a failure the next connection is accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// What every connection gets.
pub struct Door {
    /// The routes.
    pub router: Router,
    /// The certificate, where TLS is spoken.
    pub certificate: Option<Certificate>,
    /// How long clients may take.
    pub timeouts: Timeouts,
    /// How many connections there may be.
    pub places: Places,
    /// Whose word about addresses counts.
    pub proxies: Proxies,
    /// Lets time pass.
    pub clock: Arc<dyn Clock>,
}

/// Serves until `stop` says so, its sender is gone, or the socket takes no more connections; then connections end when their answers are sent, and those that
/// take longer than `last_answers` are dropped.
pub async fn serve(
    listener: TcpListener,
    door: Arc<Door>,
    mut stop: watch::Receiver<bool>,
    last_answers: Duration,
) {
    let mut connections = JoinSet::new();
    let mut failed = false;
    loop {
        let accepted = tokio::select! {
            () = told(&mut stop) => break,
            accepted = next(&listener, &door) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok(None) => {}
            Ok(Some((stream, peer, held))) => {
                failed = false;
                let serving = connection(door.clone(), (stream, peer), held, stop.clone());
                connections.spawn(serving);
            }
            // The client has gone already.
            Err(error) if is_of_the_client(&error) => {}
            Err(error) if is_of_the_socket(&error) => {
                tracing::error!(%error, "the listening socket is broken: nobody can connect any more");
                break;
            }
            Err(error) => {
                if !std::mem::replace(&mut failed, true) {
                    tracing::error!(%error, "connections cannot be accepted; it is tried again");
                }
                door.clock.sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        () = ended => {}
        () = door.clock.sleep(last_answers) => {}
    }
    connections.shutdown().await;
}

/// Completes once it is to stop.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What a connection holds, and what it does.
type Held = (Place, Arc<Activity>);

/// The next connection with its place; `None` where its address has too many that are at work.
async fn next(
    listener: &TcpListener,
    door: &Door,
) -> io::Result<Option<(TcpStream, SocketAddr, Held)>> {
    let place = door.places.one().await;
    let (stream, peer) = listener.accept().await?;
    // The clients of a proxy are counted by their requests.
    let from = (peer.ip(), door.proxies.has(peer.ip()));
    let activity = Arc::new(Activity::default());
    let place = door.places.of(place, from, &activity);
    if place.is_none() {
        tracing::debug!(%peer, "a connection is closed: its address has too many");
    }
    let _ = stream.set_nodelay(true);
    Ok(place.map(|place| (stream, peer, (place, activity))))
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Whether it would be the same at each try. Too few descriptors and a network that is down pass.
fn is_of_the_socket(error: &io::Error) -> bool {
    let broken = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT];
    Errno::from_io_error(error).is_some_and(|error| broken.contains(&error))
}

/// One connection, from its handshake to its end.
async fn connection(
    door: Arc<Door>,
    (stream, peer): (TcpStream, SocketAddr),
    (_place, activity): Held,
    stop: watch::Receiver<bool>,
) {
    let Some(certificate) = &door.certificate else {
        return spoken(door, stream, ((peer, None), activity), stop).await;
    };
    let handshake = TlsAcceptor::from(certificate.current()).accept(stream);
    let stream = tokio::select! {
        outcome = handshake => match outcome {
            Ok(stream) => stream,
            // Why is for the client alone.
            Err(_) => return,
        },
        () = door.clock.sleep(door.timeouts.headers) => return,
        () = activity.told_to_go() => return,
    };
    let chain = stream.get_ref().1.peer_certificates();
    let names = chain.and_then(|chain| Names::of(chain.first()?));
    spoken(door, stream, ((peer, names), activity), stop).await;
}

/// HTTP on one connection.
async fn spoken<S>(
    door: Arc<Door>,
    stream: S,
    (who, activity): ((SocketAddr, Option<Names>), Arc<Activity>),
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(Watched::new(stream, activity.clone()));
    let builder = builder(&door.timeouts);
    let service = {
        let (door, activity) = (door.clone(), activity.clone());
        service_fn(move |request| answered(door.clone(), request, (who.clone(), activity.clone())))
    };
    let mut serving = std::pin::pin!(builder.serve_connection(io, service));
    tokio::select! {
        // How it ended is for the client alone.
        _ = &mut serving => return,
        () = activity.is_over(&*door.clock, &door.timeouts) => {}
        () = told(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            // Whoever stops us says how long that may take.
            let _ = serving.await;
            return;
        }
    }
    if activity.is_unasked() {
        return;
    }
    serving.as_mut().graceful_shutdown();
    if activity.idleness() != Idleness::AtWork {
        // Writes what is ready. A timer of one millisecond here let a flood delay each new client by 0.2 s: behind a
        // full listener, connections end one after the other.
        let _ = serving.now_or_never();
        return;
    }
    tokio::select! {
        _ = serving => {}
        () = door.clock.sleep(LAST_WORDS) => {}
    }
}

fn builder(timeouts: &Timeouts) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Older clients know header names in title case alone.
    builder.http1().title_case_headers(true).header_read_timeout(None).max_buf_size(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(timeouts.streams)
        .max_header_list_size(u32::try_from(HEADERS).unwrap_or(u32::MAX))
        .keep_alive_interval(timeouts.idle)
        .keep_alive_timeout(timeouts.headers);
    builder
}

/// One request, which is busy until its answer is sent.
async fn answered(
    door: Arc<Door>,
    request: Request<Incoming>,
    ((peer, names), activity): ((SocketAddr, Option<Names>), Arc<Activity>),
) -> Result<Response, Infallible> {
    let busy = Busy::new(activity.clone());
    let mut place = None;
    if door.proxies.has(peer.ip()) {
        let client = door.proxies.client(request.headers(), peer.ip());
        place = door.places.request_of(client);
        if place.is_none() {
            return Ok(busy.until_sent(too_many(), place));
        }
    }
    let paced = |body| Body::new(Paced::new(body, (door.timeouts, door.clock.clone()), activity));
    let mut request = request.map(paced);
    request.extensions_mut().insert(ConnectInfo(peer));
    if let Some(names) = names {
        request.extensions_mut().insert(names);
    }
    let Ok(response) = door.router.clone().call(request).await;
    Ok(busy.until_sent(response, place))
}

fn too_many() -> Response {
    let what = "too many requests at a time from one address";
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "access.rate", what)
        .next("wait for the others to end");
    let mut response = problem.into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
mod tests {
    use super::{Door, Places, Proxies, Timeouts, serve};
    use axum::Router;
    use axum::routing::{get, post};
    use futures::future::{BoxFuture, FutureExt as _};
    use jiff::Timestamp;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use vnfm_core::ports::Clock;

    /// Each pause lasts forever.
    struct Frozen;

    impl Clock for Frozen {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            std::future::pending().boxed()
        }
    }

    #[tokio::test]
    async fn an_incomplete_request_makes_room_without_a_pause() {
        let router = Router::new()
            .route("/", get(async || "served"))
            .route("/", post(async |body: String| body));
        let door = Door {
            router,
            certificate: None,
            timeouts: Timeouts::default(),
            places: Places::new(2, 2),
            proxies: Proxies::default(),
            clock: Arc::new(Frozen),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let serving = serve(listener, Arc::new(door), stopped, Duration::ZERO);
        let client = async {
            let mut flood = Vec::new();
            for _ in 0..6 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{";
                stream.write_all(head).await.unwrap();
                flood.push(stream);
            }
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            response
        };
        let client = tokio::time::timeout(Duration::from_mins(2), client);
        tokio::select! {
            () = serving => panic!("the listener ended"),
            response = client => assert!(response.unwrap().ends_with("served")),
        }
    }
}
