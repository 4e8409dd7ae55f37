//! What models cost, as data.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::limits::{MAX_AMOUNT, MAX_NAME, MAX_PRICE, MAX_PRICES, TOKENS_PER_PROMPT, TOKENS_PER_UTTERANCE};
use super::money::{Currency, Money};
use crate::effect::Prompt;

/// The table that comes with the program.
const SHIPPED: &str = include_str!("../../../../policy/prices.toml");

/// What the models cost that somebody wrote down a price for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    rows: BTreeMap<String, Price>,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Who bills it.
    pub provider: String,
    /// Which model; `*` is all of the provider's that have no row of their own.
    pub model: String,
    /// For a million tokens of prompt, in millionths of the currency's unit.
    pub input: u64,
    /// For a million tokens of answer.
    pub output: u64,
    /// In what.
    pub currency: Currency,
    /// The day the price was taken down, `YYYY-MM-DD`.
    pub as_of: String,
    /// Where from, in words.
    pub source: String,
}

/// A table that can't be relied on.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadPrices {
    /// More than anybody writes by hand.
    #[error("a price table can have at most {MAX_PRICES} bytes, not {0}")]
    TooLarge(usize),
    /// It isn't TOML of the right shape.
    #[error("the price table can't be read: {0}")]
    Unreadable(String),
    /// A row says something that can't be.
    #[error("the price of `{row}` can't stand: {why}")]
    BadRow {
        /// Which row.
        row: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl BadPrices {
    /// In one line: what is wrong, and in which line of the table.
    fn unreadable(text: &str, why: &toml::de::Error) -> Self {
        let line = why.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
        let place = line.map_or_else(String::new, |line| format!(" in line {line}"));
        let message: Vec<&str> = why.message().split_whitespace().collect();
        Self::Unreadable(format!("{}{place}", message.join(" ")))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    price: Vec<Price>,
}

impl Prices {
    /// Reads a table: `[[price]]` rows with every field of [`Price`] and no other.
    pub fn parse(text: &str) -> Result<Self, BadPrices> {
        if text.len() > MAX_PRICES {
            return Err(BadPrices::TooLarge(text.len()));
        }
        let table: Table = toml::from_str(text).map_err(|why| BadPrices::unreadable(text, &why))?;
        let mut rows = BTreeMap::new();
        for price in table.price {
            let row = format!("{}/{}", price.provider, price.model);
            let bad = |why| BadPrices::BadRow { row: row.chars().take(3 * MAX_NAME).collect(), why };
            price.check().map_err(bad)?;
            if rows.contains_key(&row) {
                return Err(bad("it stands twice"));
            }
            rows.insert(row, price);
        }
        Ok(Self { rows })
    }

    /// The table that comes with the program. If it could not be read, nothing would have a price, and so no money.
    pub fn shipped() -> Self {
        Self::parse(SHIPPED).unwrap_or_default()
    }

    /// The text of the table that comes with the program, for whoever wants one of their own.
    pub fn shipped_text() -> &'static str {
        SHIPPED
    }

    /// The row for a model, `provider/name`.
    pub fn row(&self, model: &str) -> Option<&Price> {
        let (provider, name) = model.split_once('/')?;
        if name == "*" {
            return None;
        }
        self.rows.get(model).or_else(|| self.rows.get(&format!("{provider}/*")))
    }

    /// Every row, by provider and model.
    pub fn rows(&self) -> impl Iterator<Item = &Price> {
        self.rows.values()
    }

    /// What so many tokens cost, rounded up; `None` if the model has no price. What is too much to be counted is the
    /// largest amount that can be, which no budget reaches.
    pub fn price(&self, model: &str, input_tokens: u64, output_tokens: u64) -> Option<Money> {
        let row = self.row(model)?;
        let part = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let micros = (part(input_tokens, row.input) + part(output_tokens, row.output)).div_ceil(1_000_000);
        let micros = u64::try_from(micros).unwrap_or(MAX_AMOUNT).min(MAX_AMOUNT);
        Some(Money { micros, currency: row.currency })
    }

    /// The most that a call can cost, before it is made: a token is at least one byte of the prompt, and the answer is as
    /// long as it may be.
    pub fn worst_case(&self, prompt: &Prompt) -> Option<Money> {
        let said = prompt.utterances.iter().map(|said| said.text.len() as u64 + TOKENS_PER_UTTERANCE);
        let input_tokens = said.fold(TOKENS_PER_PROMPT, u64::saturating_add);
        self.price(&prompt.model, input_tokens, u64::from(prompt.max_tokens))
    }
}

impl Price {
    fn check(&self) -> Result<(), &'static str> {
        let named = |text: &str| {
            let lawful = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'/');
            (1..=2 * MAX_NAME).contains(&text.len()) && text.bytes().all(lawful)
        };
        match () {
            () if !named(&self.provider) || self.provider.contains('/') => Err("its provider is not a name"),
            () if self.model != "*" && !named(&self.model) => Err("its model is neither a name nor `*`"),
            () if self.input.max(self.output) > MAX_PRICE => Err("a million tokens can't cost more than a million"),
            () if !is_date(&self.as_of) => Err("its date is not written YYYY-MM-DD"),
            () if self.source.trim().is_empty() => Err("it doesn't say where it is from"),
            // A pattern with a price would put one on models that nobody has looked at.
            () if self.model == "*" && (self.input, self.output) != (0, 0) => {
                Err("only what is free can have a price for all models at once")
            }
            () => Ok(()),
        }
    }
}

/// Whether it is a date in form. A wrong day of a right form is a slip that harms nobody.
fn is_date(text: &str) -> bool {
    let part = |from: usize, to: usize| text.get(from..to).and_then(|digits| digits.parse::<u32>().ok());
    let digits = text.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    let lawful = |month: u32, day: u32| (1..=12).contains(&month) && (1..=31).contains(&day);
    text.len() == 10 && digits && part(5, 7).zip(part(8, 10)).is_some_and(|(month, day)| lawful(month, day))
}
