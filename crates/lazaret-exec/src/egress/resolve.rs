//! From a name to its addresses. Only names that were allowed come here.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;
use hickory_resolver::system_conf::read_system_conf;
use lazaret_gate::Target;
use lazaret_gate::target::Host;

use super::EgressError;

/// Answers in place of name servers.
type Answer = Arc<dyn Fn(&str) -> Result<Vec<IpAddr>, String> + Send + Sync>;

/// Who is asked for addresses.
#[derive(Clone, Default)]
pub enum Resolver {
    /// Whom the system asks: its name servers and its file of hosts. Its search list isn't used: a name is whole.
    #[default]
    System,
    /// This name server, over UDP and TCP.
    Server(SocketAddr),
    /// This, in place of name servers: for tests.
    Given(Answer),
}

impl Resolver {
    /// These names and no others.
    pub fn fixed(names: HashMap<String, Vec<IpAddr>>) -> Self {
        Self::Given(Arc::new(move |name| names.get(name).cloned().ok_or_else(|| "no such name".to_owned())))
    }
}

/// Asks for addresses. What the system says about whom to ask is read at the first lookup.
pub(super) struct Lookups {
    from: Resolver,
    whom: OnceLock<Result<(ResolverConfig, ResolverOpts), String>>,
}

impl Lookups {
    pub(super) fn new(from: Resolver) -> Self {
        Self { from, whom: OnceLock::new() }
    }

    /// Every address of the target's host, with its port. An address that stands in the URL is not looked up.
    pub(super) async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, EgressError> {
        let name = match target.host() {
            Host::Ip(address) => return Ok(vec![SocketAddr::new(*address, target.port())]),
            Host::Name(name) => name.as_str(),
        };
        let found = match &self.from {
            Resolver::Given(answer) => answer(name),
            Resolver::System | Resolver::Server(_) => self.ask(name).await,
        };
        let found = found.map_err(|why| EgressError::Lookup { host: name.to_owned(), why })?;
        if found.is_empty() {
            return Err(EgressError::NoAddress { host: name.to_owned() });
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, target.port())).collect())
    }

    async fn ask(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        let whom = self.whom.get_or_init(|| whom(&self.from).map_err(|why| why.to_string())).as_ref();
        let (config, options) = whom.map_err(Clone::clone)?.clone();
        // One for this lookup alone: it lives where its sockets are watched, and what it still waits for ends with it.
        // Nothing is remembered between lookups, so nobody learns from the time one takes what another has asked.
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        let resolver = builder.build().map_err(|why| why.to_string())?;
        let mut name = Name::from_ascii(name).map_err(|why| why.to_string())?;
        // Whole: nothing is appended to it, so the name that was checked is the name that is asked for.
        name.set_fqdn(true);
        match resolver.lookup_ip(name).await {
            Ok(found) => Ok(found.iter().collect()),
            Err(why) => Err(why.to_string()),
        }
    }
}

fn whom(from: &Resolver) -> Result<(ResolverConfig, ResolverOpts), NetError> {
    let (config, mut options) = match from {
        Resolver::Server(address) => {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = address.port();
                connection
            });
            let server = NameServerConfig::new(address.ip(), true, connections.into());
            let mut options = ResolverOpts::default();
            options.use_hosts_file = ResolveHosts::Never;
            (ResolverConfig::from_name_servers(vec![server]), options)
        }
        Resolver::System | Resolver::Given(_) => read_system_conf()?,
    };
    // Both families, so that every address there is gets checked.
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    Ok((config, options))
}
