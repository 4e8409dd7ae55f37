//! Why something can't be paid for.

use std::fmt;

use super::caps::AtCap;
use super::hosts::HostUnit;
use super::money::{Currency, Money, Rail};
use super::spend::BadSpend;
use super::switches::Killed;
use super::unit::{Holder, Scope, Unit};

/// Why nothing was reserved. Nothing was booked by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Short {
    /// Money was asked for, and there is no budget of it, or only one in another currency.
    NoBudget {
        /// Who has none.
        holder: Holder,
        /// How much was asked for.
        asked: Option<Money>,
        /// The currency that there is a budget in.
        has: Option<Currency>,
    },
    /// A cap doesn't reach.
    BudgetExceeded {
        /// Whose cap, over how long.
        scope: Scope,
        /// Of what.
        unit: Unit,
        /// The cap.
        cap: u64,
        /// What of it was spent. Of memory: the highest so far.
        spent: u64,
        /// What of it is reserved.
        reserved: u64,
        /// What was asked for.
        asked: u64,
        /// Whether a person is to be asked.
        at_cap: AtCap,
    },
    /// One host was asked often or much enough.
    HostExceeded {
        /// Whose cap.
        holder: Holder,
        /// Which host.
        host: String,
        /// Of what, over how long.
        unit: HostUnit,
        /// The cap.
        cap: u64,
        /// What of it was used.
        used: u64,
        /// What was asked for.
        asked: u64,
    },
    /// One effect would cost more than any one may.
    PerActionLimit {
        /// Whose limit.
        holder: Holder,
        /// The limit.
        limit: Money,
        /// What was asked for.
        asked: Money,
        /// Whether a person is to be asked.
        at_cap: AtCap,
    },
    /// Money may not travel so.
    RailNotAllowed {
        /// Who may not.
        holder: Holder,
        /// The rail that was asked for.
        rail: Rail,
        /// Those that are allowed.
        allowed: Vec<Rail>,
    },
    /// Nobody knows what this model costs, so it gets none of the money.
    Unpriced {
        /// Which model.
        model: String,
    },
    /// It names an amount of money that can't be read.
    BadSpend(BadSpend),
    /// A kill switch is thrown.
    Killed(Killed),
    /// More is open at once than an account keeps.
    TooManyOpen {
        /// Whose account.
        holder: Holder,
        /// Too many of what.
        what: &'static str,
        /// The most there can be.
        most: usize,
    },
}

impl From<BadSpend> for Short {
    fn from(why: BadSpend) -> Self {
        Self::BadSpend(why)
    }
}

impl From<Killed> for Short {
    fn from(why: Killed) -> Self {
        Self::Killed(why)
    }
}

impl Short {
    /// The stable name of this reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoBudget { .. } => "no-budget",
            Self::BudgetExceeded { .. } | Self::HostExceeded { .. } => "budget-exceeded",
            Self::PerActionLimit { .. } => "per-action-limit",
            Self::RailNotAllowed { .. } => "rail-not-allowed",
            Self::Unpriced { .. } => "unpriced",
            Self::BadSpend(_) => "bad-spend",
            Self::Killed(_) => "killed",
            Self::TooManyOpen { .. } => "too-many-open",
        }
    }

    /// Whether a person is to be asked or the answer is no. Only what a larger cap would let pass is worth a question.
    pub fn at_cap(&self) -> AtCap {
        match self {
            Self::BudgetExceeded { at_cap, .. } | Self::PerActionLimit { at_cap, .. } => *at_cap,
            _ => AtCap::Refuse,
        }
    }

    /// What was asked, which cap is in the way, and what is left of it.
    pub fn reason(&self) -> String {
        match self {
            Self::NoBudget { holder, asked, has } => {
                let asked = asked.map_or_else(|| "money".to_owned(), |money| money.to_string());
                match has {
                    Some(currency) => format!("asked for {asked}, but {holder} has a budget in {currency} only"),
                    None => format!("asked for {asked}, but {holder} has no budget of money"),
                }
            }
            Self::BudgetExceeded { scope, unit, cap, spent, reserved, asked, .. } => {
                exceeded(scope, *unit, *cap, (*spent, *reserved), *asked)
            }
            Self::HostExceeded { holder, host, unit, cap, used, asked } => {
                let cap = unit.say(*cap);
                format!("asked for {asked} more of `{host}`, but {holder} has {cap} there: {used} used")
            }
            Self::PerActionLimit { holder, limit, asked, .. } => {
                format!("asked for {asked} at once, but one action of {holder} may cost at most {limit}")
            }
            Self::RailNotAllowed { holder, rail, allowed } if allowed.is_empty() => {
                format!("asked to move money by `{rail}`, but {holder} is allowed no rail")
            }
            Self::RailNotAllowed { holder, rail, allowed } => {
                let names: Vec<&str> = allowed.iter().map(Rail::as_str).collect();
                format!("asked to move money by `{rail}`, but {holder} is allowed {} only", names.join(", "))
            }
            Self::Unpriced { model } => {
                format!("asked for the model `{model}`, but its price is not known, so it gets none of the money")
            }
            Self::BadSpend(why) => why.to_string(),
            Self::Killed(why) => why.reason(),
            Self::TooManyOpen { holder, what, most } => {
                format!("{holder} has {most} {what} open at once, which is the most that is kept")
            }
        }
    }

    /// What an operator could change. Never a way round.
    pub fn remedy(&self) -> String {
        match self {
            Self::NoBudget { holder, asked, has } => {
                let currency = asked.map(|money| money.currency).or(*has);
                let currency = currency.map_or_else(|| "CURRENCY".to_owned(), |code| code.to_string());
                format!("`lazaret budget set {} currency={currency} day.money=MICROS` gives it one", holder.typed())
            }
            Self::BudgetExceeded { scope, unit, .. } => {
                format!(
                    "`lazaret budget set {} {}.{}=N` changes the cap",
                    scope.holder.typed(),
                    scope.period.name(),
                    unit.name()
                )
            }
            Self::HostExceeded { holder, host, unit, .. } => {
                let (holder, unit) = (holder.typed(), unit.name());
                format!("it passes later; `lazaret budget set {holder} host.{host}.{unit}=N` changes the cap")
            }
            Self::PerActionLimit { holder, .. } => {
                format!("`lazaret budget set {} per_action=MICROS` changes the limit", holder.typed())
            }
            Self::RailNotAllowed { holder, rail, allowed } => {
                let names: Vec<&str> = allowed.iter().chain([rail]).map(Rail::as_str).collect();
                format!("`lazaret budget set {} rails={}` allows it", holder.typed(), names.join(","))
            }
            Self::Unpriced { .. } => "a row for it in the policy folder's `prices.toml` gives it a price".to_owned(),
            Self::BadSpend(_) => {
                "name `amount_micros`, `currency`, `rail` and `to` once each, at the top of the arguments".to_owned()
            }
            Self::Killed(why) => why.remedy(),
            Self::TooManyOpen { .. } => "it passes when some of them have ended".to_owned(),
        }
    }
}

fn exceeded(scope: &Scope, unit: Unit, cap: u64, (spent, reserved): (u64, u64), asked: u64) -> String {
    let Scope { holder, period } = scope;
    let (allowed, per) = (unit.say(cap), period.phrase());
    // Where nothing of it is asked for, it is overdrawn.
    let asked = if asked == 0 { String::new() } else { format!("asked for {}, but ", unit.say(asked)) };
    let spent_so_far = unit.figure(spent);
    if unit.is_peak() {
        return format!("{asked}{holder} has {allowed} {per} at most: {spent_so_far} used so far");
    }
    let used = spent.saturating_add(reserved);
    let rest = match used.checked_sub(cap) {
        Some(over) if over > 0 => format!("overdrawn by {}", unit.figure(over)),
        _ => format!("{} left", unit.figure(cap.saturating_sub(used))),
    };
    let reserved = unit.figure(reserved);
    format!("{asked}{holder} has {allowed} {per}: {spent_so_far} spent, {reserved} reserved, {rest}")
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason(), self.remedy())
    }
}

impl std::error::Error for Short {}
