//! Servers for tests, all on 127.0.0.1: ones that say what they are told to, ones with certificates, one that answers
//! for names.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lazaret_exec::egress::{Ask, Egress, EgressError, Limits, Reply, Resolver, Roots, Settings};
use lazaret_gate::Target;
use lazaret_gate::address::Destinations;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Exactly this machine's first address, and the public internet.
pub(crate) fn local() -> Destinations {
    Destinations::naming([IpAddr::V4(Ipv4Addr::LOCALHOST).into()])
}

/// The name that tests ask for; it is at 127.0.0.1.
pub(crate) const NAME: &str = "api.example";

pub(crate) fn settings(roots: Roots) -> Settings {
    let names = [NAME, "other.example"].map(|name| (name.to_owned(), vec![Ipv4Addr::LOCALHOST.into()]));
    Settings { roots, resolver: Resolver::fixed(HashMap::from(names)), ..Settings::default() }
}

pub(crate) fn plain(limits: Limits) -> Egress {
    Egress::new(Settings { limits, ..settings(Roots::Platform) })
}

pub(crate) fn ask(method: &str, url: &str) -> Ask {
    Ask { method: method.into(), url: Target::parse(url).unwrap(), headers: Vec::new(), body: Vec::new(), most: None }
}

pub(crate) fn get(egress: &Egress, url: &str) -> Result<Reply, EgressError> {
    egress.fetch(ask("GET", url), &local(), &mut || false).unwrap()
}

/// A server that hands each connection, with its number, to `serve`.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn start(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (Arc::clone(&connections), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let number = count.fetch_add(1, Ordering::SeqCst);
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream, number));
            }
        });
        Self { address, connections }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{NAME}:{}{path}", self.address.port())
    }

    pub(crate) fn https(&self, path: &str) -> String {
        format!("https://{NAME}:{}{path}", self.address.port())
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads one request: its head, and as much body as that says. Nothing if the other side is gone.
pub(crate) fn request(stream: &mut impl Read) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(len) => bytes.extend_from_slice(&piece[..len]),
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    let mut body = bytes.split_off(end);
    while body.len() < length {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(len) => body.extend_from_slice(&piece[..len]),
        }
    }
    Some((head, body))
}

/// A whole response.
pub(crate) fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Answers each request on a connection with what it is told to, until the other side goes.
pub(crate) fn answering(
    answer: impl Fn(&str, &[u8]) -> Vec<u8> + Send + Sync + 'static,
) -> impl Fn(TcpStream, usize) + Send + Sync + 'static {
    move |mut stream, _| {
        while let Some((head, body)) = request(&mut stream) {
            if stream.write_all(&answer(&head, &body)).is_err() {
                return;
            }
        }
    }
}

/// Whether the other side closes within two seconds.
pub(crate) fn closes(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(why) => return why.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Gives out certificates.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Two of one name would be told apart by their signatures only.
        let name = format!("authority {}", COUNT.fetch_add(1, Ordering::SeqCst));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::Pem(self.issuer.pem().into_bytes())
    }

    pub(crate) fn leaf(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), PrivateKeyDer::Pkcs8(key.serialize_der().into()))
    }
}

pub(crate) fn server_config(identity: Identity, protocols: &[&str]) -> Arc<ServerConfig> {
    let (certificate, key) = identity;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// What a server with a certificate saw of each connection: the name in the handshake.
pub(crate) type Names = Arc<Mutex<Vec<Option<String>>>>;

/// A server with a certificate that speaks HTTP/1.1.
pub(crate) fn https(
    identity: Identity,
    answer: impl Fn(&str, &[u8]) -> Vec<u8> + Send + Sync + 'static,
) -> (Server, Names) {
    let config = server_config(identity, &["http/1.1"]);
    let names = Names::default();
    let seen = Arc::clone(&names);
    let server = Server::start(move |stream, _| {
        let mut connection = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
        while let Some((head, body)) = request(&mut connection) {
            seen.lock().unwrap().push(connection.conn.server_name().map(str::to_owned));
            if connection.write_all(&answer(&head, &body)).is_err() {
                return;
            }
        }
    });
    (server, names)
}

/// A name server: `answer` says which addresses a name has, now. Counts what it is asked.
pub(crate) struct Names4 {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl Names4 {
    pub(crate) fn start(answer: impl Fn(&str, usize) -> Option<Vec<Ipv4Addr>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut packet = [0; 1500];
            while let Ok((len, from)) = socket.recv_from(&mut packet) {
                let Some((name, kind, end)) = question(&packet[..len]) else { continue };
                let is_a = kind == 1;
                let times = log.lock().unwrap().iter().filter(|asked| **asked == name).count();
                let Some(addresses) = answer(&name, times) else { continue };
                if is_a {
                    log.lock().unwrap().push(name);
                }
                let addresses = if is_a { addresses } else { Vec::new() };
                let mut reply = packet[..2].to_vec();
                reply.extend([0x81, 0x80, 0, 1, 0, u8::try_from(addresses.len()).unwrap(), 0, 0, 0, 0]);
                reply.extend(&packet[12..end]);
                for address in addresses {
                    // The name as before, A, IN, a time to live of 0, four bytes.
                    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                    reply.extend(address.octets());
                }
                let _ = socket.send_to(&reply, from);
            }
        });
        Self { address, asked }
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// The name, the kind of record, and where the question ends.
fn question(packet: &[u8]) -> Option<(String, u16, usize)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let len = usize::from(*packet.get(at)?);
        at += 1;
        if len == 0 {
            break;
        }
        labels.push(String::from_utf8(packet.get(at..at + len)?.to_vec()).ok()?);
        at += len;
    }
    let kind = u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]);
    Some((labels.join(".").to_lowercase(), kind, at + 4))
}
