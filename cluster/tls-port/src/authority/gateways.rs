//! The certificate of gateways for their connections to replicas, in a Secret that gateways watch.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::watch;

use super::{Authorities, Holder};
use crate::certificate::{Purpose, SKEW, ServingPair};
use crate::pairs::Pairs;
use crate::rotation::CertificateOptions;

/// Interval between two checks of the Secret.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Interval after a failed check.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Makes and renews the certificate while `role` equals `writer`. Replicas trust the authority before it signs, so a
/// new certificate is valid for them at once. Never returns; dropping the future ends it.
pub async fn keep_replica_client<R: PartialEq>(
    client: Client,
    authorities: Authorities,
    options: CertificateOptions,
    mut role: watch::Receiver<R>,
    writer: R,
) {
    let secrets: Api<Secret> = Api::namespaced(client, &options.secret.0);
    loop {
        let writes = *role.borrow_and_update() == writer;
        let mut pause = CHECK_INTERVAL.min(options.renew_after / 4);
        if writes && let Err(error) = renew(&secrets, &authorities, &options).await {
            let secret = &options.secret.1;
            tracing::warn!(%secret, %error, "cannot renew the certificate of gateways for replicas; retrying");
            pause = RETRY_DELAY;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            changed = role.changed() => if changed.is_err() { tokio::time::sleep(pause).await; },
        }
    }
}

/// Replaces the certificate if that is due. If another process changed the Secret meanwhile, the next check reads its
/// state.
async fn renew(
    secrets: &Api<Secret>,
    authorities: &Authorities,
    options: &CertificateOptions,
) -> Result<(), kube::Error> {
    let (name, now) = (&options.secret.1, wall_clock());
    let secret = secrets.get(name).await?;
    let pairs = Pairs::read(&secret);
    let is_whole = pairs.as_ref().is_some_and(|pairs| pairs.data(Purpose::Peer).ok() == secret.data);
    let current = pairs.map(|pairs| pairs.current).filter(|_| is_whole);
    if !is_due(current.as_ref(), &authorities.trusted(), options.renew_after, now) {
        return Ok(());
    }
    let holder = Holder::Gateway(options.names.first().map_or("", String::as_str));
    let made =
        authorities.sign(holder, now, options.lifetime).map_err(|error| kube::Error::Service(Box::new(error)))?;
    let data = Pairs::of(made).data(Purpose::Peer).map_err(kube::Error::SerdeError)?;
    let params = PostParams { field_manager: Some(options.manager.to_owned()), ..PostParams::default() };
    secrets.replace(name, &params, &Secret { data: Some(data), ..secret }).await?;
    tracing::info!(secret = %name, "the certificate of gateways for replicas was renewed");
    Ok(())
}

/// Returns true if a new certificate is due at `now`, in seconds since 1970: there is none, it came with other
/// authorities, it is as old as `renew_after`, it has ended, or a wrong clock has made it.
fn is_due(current: Option<&ServingPair>, trusted: &str, renew_after: Duration, now: u64) -> bool {
    current.is_none_or(|pair| {
        let used_from = pair.begins.saturating_sub(SKEW.as_secs());
        let renewed_from = pair.ends.min(pair.begins.saturating_add(renew_after.as_secs()));
        pair.authority != trusted || !(used_from..renewed_from).contains(&now)
    })
}

#[expect(clippy::disallowed_methods, reason = "this is the shell that owns the certificates' clock")]
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(begins: u64, ends: u64) -> ServingPair {
        let text = || String::new();
        let names = Vec::new();
        ServingPair { authority: "ours".to_owned(), certificate: text(), key: text(), names, begins, ends }
    }

    proptest! {
        #[test]
        fn a_certificate_is_kept_exactly_while_it_is_young_and_of_the_authority(
            begins in 0_u64..1_000_000,
            lifetime in 1_u64..1_000_000,
            renew_after in 1_u64..1_000_000,
            now in 0_u64..3_000_000,
        ) {
            let (one, renew_after) = (pair(begins, begins + lifetime), Duration::from_secs(renew_after));
            let is_young = now + SKEW.as_secs() >= begins && now < begins + lifetime.min(renew_after.as_secs());
            prop_assert_eq!(is_due(Some(&one), "ours", renew_after, now), !is_young);
            prop_assert!(is_due(Some(&one), "others", renew_after, now));
            prop_assert!(is_due(None, "ours", renew_after, now));
        }
    }
}
