//! What may be spent, what is reserved, what was spent: budgets that outlive a turn, and money.
//!
//! An [`Account`] belongs to one agent or one app. Before an effect runs, its worst case is reserved; afterwards what it
//! really took is settled, or the reservation is released. The account with its open reservations is a plain value: a
//! host stores it in the same transaction as the turn, so that a crash leaves nothing reserved that can't be found.
//!
//! Nothing here reads a clock: day, run and turn are handed in as a [`Point`]. Start with [`Account::reserve`].

mod account;
mod amounts;
mod caps;
mod hosts;
mod joint;
pub mod limits;
mod line;
mod money;
mod prices;
mod short;
mod spend;
mod switches;
mod unit;

pub use account::{Account, Hold, NotOpen, Reservation, Settled};
pub use amounts::{Amounts, Ask, Point};
pub use caps::{AtCap, BadCaps, Caps, Limits};
pub use hosts::{HostCaps, HostUnit, HostUse};
pub use joint::{Joint, reserve_both};
pub use line::{Crossing, Line, Mark, Unbalanced};
pub use money::{BadName, Currency, Money, Rail};
pub use prices::{BadPrices, Price, Prices};
pub use short::Short;
pub use spend::{BadSpend, Spend, spend_of};
pub(crate) use switches::utc;
pub use switches::{Change, Killed, Switch, SwitchEvent, Switches, Thrown};
pub use unit::{Holder, Period, Scope, Unit};
