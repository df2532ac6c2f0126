//! Chains of certificates: their names and times.

use std::time::Duration;

use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// Returns a time in seconds since 1970 for the TLS library.
pub(super) fn time(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

/// Returns the only common name of the subject; `None` without one, or with several.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let parsed = parse(certificate)?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next().filter(|_| names.next().is_none())?;
    Some(name.as_str().ok()?.to_owned())
}

/// Returns the only DNS name among the alternative names; `None` without one, or with several.
pub(super) fn dns_name(certificate: &CertificateDer<'_>) -> Option<String> {
    only_name(certificate, |name| match name {
        GeneralName::DNSName(name) => Some(name),
        _ => None,
    })
}

/// Returns the only URI among the alternative names; `None` without one, or with several.
pub(super) fn uri(certificate: &CertificateDer<'_>) -> Option<String> {
    only_name(certificate, |name| match name {
        GeneralName::URI(uri) => Some(uri),
        _ => None,
    })
}

/// Returns the URI that is the only alternative name; `None` without one, or with any other name.
pub(crate) fn only_uri(certificate: &CertificateDer<'_>) -> Option<String> {
    let parsed = parse(certificate)?;
    let names = parsed.subject_alternative_name().ok()??;
    match names.value.general_names.as_slice() {
        [GeneralName::URI(uri)] => Some((*uri).to_owned()),
        _ => None,
    }
}

/// Returns the earliest end of validity in the chain, as the last valid second. Certificates that have expired at `now`
/// are ignored, because the verification did not need them; if all have expired, the result is `now`.
pub(super) fn first_expiry(chain: &[CertificateDer<'_>], now: u64) -> u64 {
    let ends = chain.iter().filter_map(|certificate| parse(certificate));
    let ends = ends.filter_map(|parsed| u64::try_from(parsed.validity().not_after.timestamp()).ok());
    ends.filter(|end| *end >= now).min().unwrap_or(now)
}

fn only_name(
    certificate: &CertificateDer<'_>,
    of: impl for<'a> Fn(&GeneralName<'a>) -> Option<&'a str>,
) -> Option<String> {
    let parsed = parse(certificate)?;
    let names = parsed.subject_alternative_name().ok()??;
    let mut found = names.value.general_names.iter().filter_map(of);
    let name = found.next().filter(|_| found.next().is_none())?;
    Some(name.to_owned())
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (rest, parsed) = parse_x509_certificate(certificate).ok()?;
    rest.is_empty().then_some(parsed)
}
