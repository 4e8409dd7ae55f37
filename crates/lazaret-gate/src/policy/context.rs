//! The circumstances of one ask.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::request::BadRequest;
use super::schema::{Action, Shape};
use super::{MAX_MARKS, MAX_NAME};
use crate::risk::{Risk, RiskTier};
use crate::trust::Score;

/// What a rule sees of a risk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskFacts {
    /// Low, medium or high.
    pub tier: RiskTier,
    /// Thousandths.
    pub score: u32,
}

impl From<&Risk> for RiskFacts {
    fn from(risk: &Risk) -> Self {
        Self { tier: risk.tier, score: risk.score }
    }
}

/// The parts of the context, one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Risk,
    Labels,
    Run,
    Device,
    Tier,
    Spent,
    Time,
    Bytes,
    Arguments,
    Amount,
    Method,
    Scheme,
    Port,
    Path,
    ContentType,
    Trust,
    Host,
}

impl Fact {
    pub(super) const ALL: [Self; 17] = [
        Self::Risk,
        Self::Labels,
        Self::Run,
        Self::Device,
        Self::Tier,
        Self::Spent,
        Self::Time,
        Self::Bytes,
        Self::Arguments,
        Self::Amount,
        Self::Method,
        Self::Scheme,
        Self::Port,
        Self::Path,
        Self::ContentType,
        Self::Trust,
        Self::Host,
    ];

    /// As rules spell it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Risk => "risk",
            Self::Labels => "labels",
            Self::Run => "run",
            Self::Device => "device",
            Self::Tier => "tier",
            Self::Spent => "spent",
            Self::Time => "time",
            Self::Bytes => "bytes",
            Self::Arguments => "arguments",
            Self::Amount => "amount",
            Self::Method => "method",
            Self::Scheme => "scheme",
            Self::Port => "port",
            Self::Path => "path",
            Self::ContentType => "content_type",
            Self::Trust => "trust",
            Self::Host => "host",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fact| fact.name() == name)
    }
}

/// Everything that a rule can read as `context`. What an action doesn't come with is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Context {
    /// How much harm it could do.
    pub risk: RiskFacts,
    /// What the agent has seen.
    pub labels: BTreeSet<String>,
    /// Which run asks.
    pub run: String,
    /// The device that the run was started from.
    pub device: Option<String>,
    /// How the code is confined.
    pub tier: String,
    /// Micro-units of money, today.
    #[serde(with = "whole")]
    pub spent: i64,
    /// Milliseconds since 1970.
    #[serde(with = "whole")]
    pub time: i64,
    /// How much the ask hands over.
    #[serde(with = "whole")]
    pub bytes: i64,
    /// The digest of the ask.
    pub arguments: String,
    /// Micro-units of money that the ask names.
    #[serde(with = "whole::option")]
    pub amount: Option<i64>,
    /// `GET`, `POST`, …
    pub method: Option<String>,
    /// `https` or `http`.
    pub scheme: Option<String>,
    /// Where the host listens.
    pub port: Option<u16>,
    /// A URL's path or a storage key.
    pub path: Option<String>,
    /// What the body is, in lower case and without parameters.
    pub content_type: Option<String>,
    /// How far the asking agent is trusted, in hundredths; none of whoever has no score.
    pub trust: Option<Score>,
    /// Who a secret would be sent to; of a request it is what is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            risk: RiskFacts { tier: RiskTier::Low, score: 0 },
            labels: BTreeSet::new(),
            run: String::new(),
            device: None,
            tier: String::new(),
            spent: 0,
            time: 0,
            bytes: 0,
            arguments: String::new(),
            amount: None,
            method: None,
            scheme: None,
            port: None,
            path: None,
            content_type: None,
            trust: None,
            host: None,
        }
    }
}

impl Context {
    /// Whether it is what this action comes with: nothing missing, nothing too much, nothing out of bounds.
    pub(super) fn check(&self, action: &Action) -> Result<(), BadRequest> {
        let numbers = [("spent", self.spent), ("time", self.time), ("bytes", self.bytes)];
        for (name, value) in numbers.into_iter().chain(self.amount.map(|amount| ("amount", amount))) {
            if value < 0 {
                return Err(BadRequest::Negative { name, value });
            }
        }
        let texts = [&self.run, &self.tier, &self.arguments].into_iter();
        let optional = [&self.device, &self.method, &self.scheme, &self.path, &self.content_type, &self.host];
        let mut texts = texts.chain(optional.into_iter().flatten()).chain(&self.labels);
        if self.labels.len() > MAX_MARKS || texts.any(|text| text.len() > MAX_NAME) {
            return Err(BadRequest::TooLong);
        }
        let http = action.shape == Shape::Http;
        // All of where it goes, or nothing: then only the name is asked for.
        let bound = action.shape == Shape::Secret && self.host.is_some();
        let away = http || bound;
        let parts = [
            ("host", self.host.is_some(), bound, false),
            ("method", self.method.is_some(), away, false),
            ("scheme", self.scheme.is_some(), away, false),
            ("port", self.port.is_some(), away, false),
            ("path", self.path.is_some(), away || action.shape == Shape::Storage, false),
            ("content_type", self.content_type.is_some(), action.shape == Shape::Message, http),
        ];
        for (name, there, needed, welcome) in parts {
            if needed && !there {
                return Err(BadRequest::Missing { action: action.name, name });
            }
            if there && !needed && !welcome {
                return Err(BadRequest::Unknown { action: action.name, name });
            }
        }
        Ok(())
    }
}

/// Numbers as numbers where canonical JSON can carry them, else as decimal text; one spelling for each.
mod whole {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    use crate::limits::MAX_EXACT;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(super) fn serialize<S: Serializer>(value: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        match u64::try_from(*value) {
            Ok(small) if small <= MAX_EXACT => serializer.serialize_u64(small),
            _ => serializer.serialize_str(&value.to_string()),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        deserializer.deserialize_any(Whole)
    }

    struct Whole;

    impl Visitor<'_> for Whole {
        type Value = i64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number from -2^63 to 2^63-1")
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<i64, E> {
            Ok(value)
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<i64, E> {
            i64::try_from(value).map_err(|_| E::custom(format!("`{value}` is larger than 2^63-1")))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<i64, E> {
            text.parse().map_err(|_| E::custom(format!("`{text}` is not a whole number from -2^63 to 2^63-1")))
        }
    }

    pub(super) mod option {
        use serde::{Deserialize, Deserializer, Serializer};

        #[expect(clippy::ref_option, reason = "serde asks for a reference")]
        pub(in super::super) fn serialize<S: Serializer>(
            value: &Option<i64>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => super::serialize(value, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<i64>, D::Error> {
            #[derive(Deserialize)]
            struct One(#[serde(with = "super")] i64);
            Ok(Option::<One>::deserialize(deserializer)?.map(|one| one.0))
        }
    }
}
