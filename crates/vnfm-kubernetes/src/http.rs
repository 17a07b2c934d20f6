//! The HTTP client below `kube`: checks addresses, limits responses, uses the VIM's proxy if there is one.

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, Client, ClientBuilder, ConfigExt as _};
use kube::{Config, Error};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{BoxError, ServiceBuilder};
use tower_service::Service;
use vnfm_outbound::hyper::{Measured, Resolver};
use vnfm_outbound::{Destinations, Policy};

/// How long an idle connection is kept: shorter than API servers and load balancers do, so that we close it first.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds a client that connects only to what `to` allows; the caller has checked hosts that are IP addresses.
///
/// # Errors
///
/// Certificate and key do not match.
pub(crate) fn client(config: &Config, to: Destinations) -> Result<Client, Error> {
    let mut connector = HttpConnector::new_with_resolver(Resolver(to));
    connector.enforce_http(false);
    match &config.proxy_url {
        Some(proxy) => client_over(config, Tunnel::new(proxy.clone(), connector)),
        None => client_over(config, connector),
    }
}

/// Builds the client over a TCP or tunnel connector.
fn client_over<C>(config: &Config, connector: C) -> Result<Client, Error>
where
    C: Service<http::Uri> + Clone + Send + Sync + 'static,
    C::Response: legacy::connect::Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin,
    C::Future: Send,
    C::Error: std::error::Error + Send + Sync,
{
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http = legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(Bounded(http));
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// Limits the size of response bodies; of a watch, which has no end, that of each event.
#[derive(Clone)]
struct Bounded<S>(S);

impl<S> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<Incoming>>,
    S::Future: Send + 'static,
{
    type Response = Response<Measured<Incoming>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let response = self.0.call(request);
        Box::pin(async move {
            let response = response.await?;
            Ok(response.map(|body| Measured::new(body, &Policy::VIM, is_watch)))
        })
    }
}
