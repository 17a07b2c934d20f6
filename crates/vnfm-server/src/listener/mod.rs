//! The HTTP listener, with limits and timeouts for connections.
//!
//! ```text
//! slot in total ─ accept ─ slot of its address ─ TLS ───┬─ headers ─ request ─ body ─ response ┐
//!   waits                  otherwise closed      10 s  └──10 s──────────────10 KiB in 10 s───┤
//!                                                         ▲                                     │
//!                                                         └─────────── idle, 60 s ──────────────┘
//! ```
//! Every wait for a client has a timeout, and no address can take all slots; the values are [`Timeouts`] and
//! [`ConnectionLimits`], both from `limits` in the configuration. A request that waits for events is not idle: it gets
//! its response when an event occurs, and its connection counts until then.
//!
//! | file | contents |
//! |---|---|
//! | here | accepts connections, serves TLS and HTTP, shuts down in order |
//! | `listener/connection_limits.rs` | limits for connections, in total and per address |
//! | `listener/activity.rs` | closes connections whose clients are inactive |
//! | `listener/body_rate.rs` | enforces the minimum rate of request bodies |
//! | `listener/timeouts.rs` | timeouts for clients |
//! | `listener/descriptors.rs` | derives the number of connections from the limit of file descriptors |

mod activity;
mod body_rate;
mod connection_limits;
mod descriptors;
mod timeouts;

pub(crate) use body_rate::too_slow;
pub(crate) use connection_limits::ConnectionLimits;
pub use descriptors::Descriptors;
pub(crate) use timeouts::Timeouts;

use crate::client_certificate::Names;
use crate::forwarded::Proxies;
use crate::problem::Problem;
use crate::tls::Certificate;
use activity::{Activity, Busy, Idleness, ObservedStream};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use body_rate::MinRateBody;
use connection_limits::Permit;
use futures::future::FutureExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
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

/// Maximum size of request headers, and of the read buffer.
const MAX_HEADER_BYTES: usize = 128 * 1024;
/// How long a connection that ends may take to close gracefully.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What all connections of a listener share.
pub(crate) struct HttpService {
    /// The API, or health and metrics.
    pub router: Router,
    /// The TLS certificate; plain HTTP without it.
    pub certificate: Option<Certificate>,
    /// From `limits` in the configuration.
    pub timeouts: Timeouts,
    /// What all connections have in common.
    pub limits: ConnectionLimits,
    /// The proxies whose headers about client addresses are trusted.
    pub proxies: Proxies,
    /// The clock for the timeouts.
    pub clock: Arc<dyn Clock>,
}

/// Serves until `stop` is set, its sender is dropped, or the socket breaks. Connections then end when their responses
/// are sent; after `response_grace` the remaining ones are dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    service: Arc<HttpService>,
    mut stop: watch::Receiver<bool>,
    response_grace: Duration,
) {
    let mut connections = JoinSet::new();
    let mut failed = false;
    loop {
        let accepted = tokio::select! {
            () = stop_requested(&mut stop) => break,
            accepted = accept(&listener, &service) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok(None) => {}
            Ok(Some((stream, peer, slot))) => {
                failed = false;
                let serving = serve_connection(service.clone(), (stream, peer), slot, stop.clone());
                connections.spawn(serving);
            }
            // The client has already disconnected.
            Err(error) if is_client_error(&error) => {}
            Err(error) if is_socket_error(&error) => {
                tracing::error!(%error, "the listening socket is broken; no more connections are accepted");
                break;
            }
            Err(error) => {
                if !std::mem::replace(&mut failed, true) {
                    tracing::error!(%error, "cannot accept connections; retrying");
                }
                service.clock.sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        () = ended => {}
        () = service.clock.sleep(response_grace) => {}
    }
    connections.shutdown().await;
}

/// Completes when the listener should stop.
async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A connection's permit and activity.
type Slot = (Permit, Arc<Activity>);

/// Accepts the next connection; `None` if its address has too many busy ones.
async fn accept(
    listener: &TcpListener,
    service: &HttpService,
) -> io::Result<Option<(TcpStream, SocketAddr, Slot)>> {
    let permit = service.limits.acquire().await;
    let (stream, peer) = listener.accept().await?;
    // Clients behind a proxy are limited by their requests, not connections.
    let from = (peer.ip(), service.proxies.has(peer.ip()));
    let activity = Arc::new(Activity::default());
    let permit = service.limits.register(permit, from, &activity);
    if permit.is_none() {
        tracing::debug!(%peer, "closing a connection: too many from its address");
    }
    let _ = stream.set_nodelay(true);
    Ok(permit.map(|permit| (stream, peer, (permit, activity))))
}

fn is_client_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

/// Whether a retry cannot succeed. Too few file descriptors, or a network that is down, are temporary.
fn is_socket_error(error: &io::Error) -> bool {
    let broken = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT];
    Errno::from_io_error(error).is_some_and(|error| broken.contains(&error))
}

/// Serves one connection, from the handshake to its end.
async fn serve_connection(
    service: Arc<HttpService>,
    (stream, peer): (TcpStream, SocketAddr),
    (_permit, activity): Slot,
    stop: watch::Receiver<bool>,
) {
    let Some(certificate) = &service.certificate else {
        return serve_http(service, stream, ((peer, None), activity), stop).await;
    };
    let handshake = TlsAcceptor::from(certificate.current()).accept(stream);
    let stream = tokio::select! {
        outcome = handshake => match outcome {
            Ok(stream) => stream,
            // The error matters only to the client.
            Err(_) => return,
        },
        () = service.clock.sleep(service.timeouts.headers) => return,
        () = activity.evicted() => return,
    };
    let chain = stream.get_ref().1.peer_certificates();
    let names = chain.and_then(|chain| Names::parse(chain.first()?));
    serve_http(service, stream, ((peer, names), activity), stop).await;
}

/// Serves HTTP on one connection.
async fn serve_http<S>(
    service: Arc<HttpService>,
    stream: S,
    (client, activity): ((SocketAddr, Option<Names>), Arc<Activity>),
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(ObservedStream::new(stream, activity.clone()));
    let builder = builder(&service.timeouts);
    let handler = {
        let (service, activity) = (service.clone(), activity.clone());
        service_fn(move |request| {
            respond(service.clone(), request, (client.clone(), activity.clone()))
        })
    };
    let mut serving = std::pin::pin!(builder.serve_connection(io, handler));
    tokio::select! {
        // The outcome matters only to the client.
        _ = &mut serving => return,
        () = activity.timed_out(&*service.clock, &service.timeouts) => {}
        () = stop_requested(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            // The caller of `serve` limits the time for this.
            let _ = serving.await;
            return;
        }
    }
    if activity.is_without_request() {
        return;
    }
    serving.as_mut().graceful_shutdown();
    if activity.idleness() != Idleness::Responding {
        // Writes what is ready. A timer of one millisecond here let a flood delay each new client by 0.2 s: behind a
        // full listener, connections end one after the other.
        let _ = serving.now_or_never();
        return;
    }
    tokio::select! {
        _ = serving => {}
        () = service.clock.sleep(GOODBYE_TIMEOUT) => {}
    }
}

fn builder(timeouts: &Timeouts) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Older clients know header names only in title case.
    builder
        .http1()
        .title_case_headers(true)
        .header_read_timeout(None)
        .max_buf_size(MAX_HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(timeouts.streams)
        .max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
        .keep_alive_interval(timeouts.idle)
        .keep_alive_timeout(timeouts.headers);
    builder
}

/// Handles one request; the connection is busy until the response is sent.
async fn respond(
    service: Arc<HttpService>,
    request: Request<Incoming>,
    ((peer, names), activity): ((SocketAddr, Option<Names>), Arc<Activity>),
) -> Result<Response, Infallible> {
    let busy = Busy::new(activity.clone());
    let mut permit = None;
    if service.proxies.has(peer.ip()) {
        let client = service.proxies.client(request.headers(), peer.ip());
        permit = service.limits.acquire_request(client);
        if permit.is_none() {
            return Ok(busy.until_sent(too_many(), permit));
        }
    }
    let limited = |body| {
        Body::new(MinRateBody::new(
            body,
            (service.timeouts, service.clock.clone()),
            activity,
        ))
    };
    let mut request = request.map(limited);
    request.extensions_mut().insert(ConnectInfo(peer));
    if let Some(names) = names {
        request.extensions_mut().insert(names);
    }
    let Ok(response) = service.router.clone().call(request).await;
    Ok(busy.until_sent(response, permit))
}

fn too_many() -> Response {
    let detail = "too many concurrent requests from one address";
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "access.rate", detail)
        .hint("wait until other requests have finished");
    let mut response = problem.into_response();
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
mod tests {
    use super::{ConnectionLimits, HttpService, Proxies, Timeouts, serve};
    use axum::Router;
    use axum::routing::{get, post};
    use futures::future::{BoxFuture, FutureExt as _};
    use jiff::Timestamp;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use vnfm_core::ports::Clock;

    /// A clock whose pauses never end.
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
        let service = HttpService {
            router,
            certificate: None,
            timeouts: Timeouts::default(),
            limits: ConnectionLimits::new(2, 2),
            proxies: Proxies::default(),
            clock: Arc::new(Frozen),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_stop, stopped) = tokio::sync::watch::channel(false);
        let serving = serve(listener, Arc::new(service), stopped, Duration::ZERO);
        let client = async {
            let mut flood = Vec::new();
            for _ in 0..6 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{";
                // The server may have closed it already, to make room.
                let _ = stream.write_all(head).await;
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
