//! From addresses that were checked to a socket.

use std::io;
use std::net::SocketAddr;

use lazaret_gate::Target;
use tokio::net::TcpStream;

use super::socket::Socket;
use super::{Dialler, EgressError};
use crate::limits::MAX_DIALS;

/// Connects to the first of the addresses that answers, and says which one.
pub(super) async fn dial(
    target: &Target,
    addresses: &[SocketAddr],
    dialler: Option<&Dialler>,
) -> Result<(Socket, SocketAddr), EgressError> {
    let mut last = EgressError::NoAddress { host: target.host_text().to_owned() };
    for address in addresses.iter().take(MAX_DIALS) {
        match connect(*address, dialler).await {
            Ok(socket) => return Ok((socket, *address)),
            Err(why) => {
                let host = target.host_text().to_owned();
                last = EgressError::Connect { host, address: *address, why: why.to_string() };
            }
        }
    }
    Err(last)
}

async fn connect(address: SocketAddr, dialler: Option<&Dialler>) -> io::Result<Socket> {
    let address = dialler.map_or(Ok(address), |dialler| dialler(address))?;
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Socket::over(stream.into_std()?)
}
