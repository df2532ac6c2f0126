//! Resolves the names of hosts, and refuses inner addresses of hosts that a server named.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::redirect::address_refusal;

/// A resolver that looks at the very addresses to which the client connects. A check before the connection is not
/// enough: the name server of a hostile host may answer the check with one address, and the connection with another.
#[derive(Clone, Debug, Default)]
pub(super) struct GuardedResolver {
    /// The hosts that a server named. Other hosts, such as a proxy, may have inner addresses.
    named: Arc<Mutex<BTreeSet<String>>>,
}

impl GuardedResolver {
    /// Refuses inner addresses of this host from now on.
    pub(super) fn guard(&self, host: &str) {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned());
    }

    fn is_guarded(&self, host: &str) -> bool {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).contains(host)
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_guarded = self.is_guarded(name.as_str());
        Box::pin(async move {
            let addresses: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let refusal = addresses.iter().find_map(|address| address_refusal(address.ip()));
            match refusal.filter(|_| is_guarded) {
                Some(reason) => Err(reason.into()),
                None => Ok(Box::new(addresses.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Url;
    use reqwest::header::HeaderMap;

    use crate::limits::Limits;
    use crate::source::test_server::{Reply, TestServer};
    use crate::web::{Trust, WebClient};

    #[tokio::test]
    async fn a_host_that_a_server_named_is_checked_at_the_connection() {
        let server = TestServer::start(|_| Reply::ok("content"));
        let web = WebClient::new(&Limits::default(), &Trust::System).unwrap();
        let url = Url::parse(&format!("http://{}/", server.address.replace("127.0.0.1", "localhost"))).unwrap();
        assert!(web.get(&url, &HeaderMap::new()).await.is_ok());
        web.resolver.guard("localhost");
        assert!(web.get(&url, &HeaderMap::new()).await.is_err());
        assert_eq!(server.requests("/").len(), 1);
    }
}
