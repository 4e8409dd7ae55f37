//! The one way by which commands change anything: the keeper's, if one runs on the data root, or our own.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_gate::AgentId;
use lazaret_host::{Host, HostError, Keeper, Turn};
use lazaret_link::{AgentRequest, BadToken, Client, LinkError, Reply, Request, TOKEN, Token, socket};
use lazaret_store::{AgentRow, Store, StoreError};

use crate::cli::Cli;
use crate::commands::{data_dir, open_host, report_problem, spend_killed};
use crate::failure::Failure;
use crate::person::{Terminal, attend};
use crate::ui::Ui;

/// The keeper's token, instead of the one in the data root.
const IPC_TOKEN: &str = "LAZARET_IPC_TOKEN";

/// How long a keeper that starts may take until it answers.
const STARTING: Duration = Duration::from_secs(30);

/// Who answers.
pub(crate) enum Door {
    /// This process, which has the data root open.
    Here(Box<Keeper>),
    /// A keeper.
    There {
        /// The connection to it.
        client: Client,
        /// Where reads go.
        root: PathBuf,
    },
}

fn token_of_environment() -> Result<Option<Token>, Failure> {
    match std::env::var_os(IPC_TOKEN).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            let bad = |why: BadToken| Failure::Input(format!("{IPC_TOKEN} can't be used: {why}"));
            Ok(Some(Token::parse(text).map_err(bad)?))
        }
    }
}

/// The token of a keeper that starts: the environment's, or the data root's, which is made if it isn't there.
pub(crate) fn keepers_token(root: &Path) -> Result<Token, Failure> {
    match token_of_environment()? {
        Some(token) => Ok(token),
        None => Ok(Token::read_or_make(&root.join(TOKEN))?),
    }
}

/// A connection to the keeper of a data root, if one runs.
pub(crate) fn keeper_of(root: &Path) -> Result<Option<Client>, Failure> {
    let path = socket(root);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let connect = |token: &Token| match Client::connect(&path, token) {
        Ok(client) => Ok(Some(client)),
        Err(LinkError::Nobody) => Ok(None),
        Err(why) => Err(Failure::from(why)),
    };
    if let Some(token) = token_of_environment()? {
        return connect(&token);
    }
    let file = root.join(TOKEN);
    match Token::read(&file) {
        Ok(token) => connect(&token),
        Err(BadToken::File { why, .. }) if why.kind() == ErrorKind::NotFound => {
            // The first to knock wakes a keeper that a service manager starts, and that one makes the token.
            match Client::ping(&path) {
                Ok(()) => connect(&Token::read(&file)?),
                Err(LinkError::Nobody) => Ok(None),
                Err(why) => Err(why.into()),
            }
        }
        Err(why) => Err(why.into()),
    }
}

/// An answer that belongs to another request.
pub(crate) fn unexpected() -> Failure {
    LinkError::Nonsense("it answers something else".into()).into()
}

impl Door {
    /// Finds the keeper, or opens the data root.
    pub(crate) fn open(cli: &Cli, ui: &Ui) -> Result<Self, Failure> {
        let root = data_dir(cli)?;
        let mut there = match Self::there(&root)? {
            Some(there) => there,
            None => match open_host(cli, ui) {
                Ok(host) => return Ok(Self::Here(Box::new(Keeper::new(Arc::new(host))))),
                Err(busy @ Failure::Host(HostError::Store(StoreError::Busy { pid: Some(pid) }))) => {
                    Self::starting(&root, pid)?.ok_or(busy)?
                }
                Err(why) => return Err(why),
            },
        };
        let Reply::Problems(problems) = there.ask(Request::Problems)? else { return Err(unexpected()) };
        problems.iter().for_each(|problem| report_problem(ui, problem));
        Ok(there)
    }

    fn there(root: &Path) -> Result<Option<Self>, Failure> {
        let Some(client) = keeper_of(root)? else { return Ok(None) };
        if let Some(by) = spend_killed()? {
            lazaret_host::stop_spending(root, &by)?;
        }
        Ok(Some(Self::There { client, root: root.to_owned() }))
    }

    /// Waits for a keeper that has the data root and does not answer yet.
    fn starting(root: &Path, pid: u32) -> Result<Option<Self>, Failure> {
        let begun = Instant::now();
        while crate::keeper::marked(root) == Some(pid) && begun.elapsed() < STARTING {
            if let Some(there) = Self::there(root)? {
                return Ok(Some(there));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(None)
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Reply, Failure> {
        match self {
            Self::Here(keeper) => Ok(keeper.answer(request)?),
            Self::There { client, .. } => Ok(client.ask(request)?),
        }
    }

    /// Asks for a turn. If the keeper takes it and a person sits here, that person is asked what it asks.
    pub(crate) fn take_turn(
        &mut self,
        request: Request,
        ours: impl Fn(&AgentId) -> bool + Sync,
    ) -> Result<Turn, Failure> {
        let reply = match (self, Terminal::find()) {
            (Self::There { client, root }, Some(person)) => {
                attend(root, &*person, &ours, || client.ask(request))?.map_err(Failure::from)
            }
            (door, _) => door.ask(request),
        };
        match reply? {
            Reply::Taken(taken) => Ok((*taken).into()),
            _ => Err(unexpected()),
        }
    }

    /// Lets agents answer their mail.
    pub(crate) fn deliver(&mut self) -> Result<Vec<Turn>, Failure> {
        match self.ask(Request::Agent(AgentRequest::Deliver))? {
            Reply::Delivered(turns) => Ok(turns.into_iter().map(Turn::from).collect()),
            _ => Err(unexpected()),
        }
    }

    /// An agent that exists.
    pub(crate) fn row(&self, agent: &AgentId) -> Result<AgentRow, Failure> {
        match self {
            Self::Here(keeper) => Ok(Arc::unwrap_or_clone(keeper.host().known(agent)?)),
            Self::There { root, .. } => {
                let row = Store::open_read_only(root)?.agent(agent)?;
                Ok(row.ok_or_else(|| HostError::NoAgent(agent.to_string()))?)
            }
        }
    }

    /// The host, if it is this process's own.
    pub(crate) fn host(&self) -> Option<&Host> {
        match self {
            Self::Here(keeper) => Some(keeper.host()),
            Self::There { .. } => None,
        }
    }
}
