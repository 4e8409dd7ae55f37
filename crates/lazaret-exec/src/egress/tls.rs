//! Who vouches for a server, and what is wrong when nobody does.
//!
//! The platform's roots are read by `rustls-native-certs` and judged by webpki, on every system the same: a verifier of
//! the operating system's own would fetch revocations by itself, past the rules. An empty store is an error and not a
//! reason to use roots that the operator doesn't know of; who wants those of the browsers asks for them.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use lazaret_gate::Target;
use lazaret_gate::target::Host;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::{CertificateFault, EgressError};

/// Who may vouch for a server.
#[derive(Clone, Default)]
pub enum Roots {
    /// Whom the system trusts.
    #[default]
    Platform,
    /// Whom browsers trust, as this program was built.
    Bundled,
    /// These certificates, in PEM, and nobody else.
    Pem(Vec<u8>),
}

/// Speaks TLS 1.2 and 1.3, and offers HTTP/2 before HTTP/1.1.
pub(super) fn connector(roots: &Roots) -> Result<TlsConnector, EgressError> {
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| EgressError::Start(why.to_string()))?;
    let mut config = config.with_root_certificates(store(roots)?).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}

fn store(roots: &Roots) -> Result<RootCertStore, EgressError> {
    let mut store = RootCertStore::empty();
    let mut why = "there are none".to_owned();
    match roots {
        Roots::Platform => {
            let found = rustls_native_certs::load_native_certs();
            if let Some(error) = found.errors.first() {
                why = error.to_string();
            }
            // Old stores hold certificates that nobody can read: the others still count.
            store.add_parsable_certificates(found.certs);
        }
        Roots::Bundled => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Roots::Pem(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|why| EgressError::NoRoots(why.to_string()))?;
                store.add(certificate).map_err(|why| EgressError::NoRoots(why.to_string()))?;
            }
        }
    }
    if store.is_empty() { Err(EgressError::NoRoots(why)) } else { Ok(store) }
}

/// What the handshake names and the certificate must say: the target's host.
pub(super) fn server_name(target: &Target) -> Result<ServerName<'static>, EgressError> {
    match target.host() {
        Host::Ip(IpAddr::V4(address)) => Ok(ServerName::IpAddress((*address).into())),
        Host::Ip(IpAddr::V6(address)) => Ok(ServerName::IpAddress((*address).into())),
        Host::Name(name) => ServerName::try_from(name.as_str().to_owned())
            .map_err(|why| EgressError::Tls { host: name.as_str().to_owned(), why: why.to_string() }),
    }
}

/// What sort of fault it is, and no more: the rest may be what stands in the certificate, in the server's own words.
fn kind_of(fault: &CertificateError) -> String {
    format!("{fault:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// What a failed handshake means.
pub(super) fn fault(target: &Target, why: &io::Error) -> EgressError {
    let host = target.host_text().to_owned();
    let inner = why.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(certificate)) = inner else {
        return EgressError::Tls { host, why: why.to_string() };
    };
    let fault = match certificate {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => CertificateFault::NotYet,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            CertificateFault::WrongName
        }
        CertificateError::UnknownIssuer => CertificateFault::UnknownIssuer,
        CertificateError::Revoked => CertificateFault::Revoked,
        other => CertificateFault::Other(kind_of(other)),
    };
    EgressError::Certificate { host, fault }
}
