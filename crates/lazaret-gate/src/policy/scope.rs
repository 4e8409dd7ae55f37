//! The head of a rule, asked without Cedar: whom it is about, and what for. A rule whose head doesn't fit can't match and
//! can't fail, so it needn't be evaluated.

use std::fmt;

use cedar_policy::{EntityTypeName, EntityUid, Policy, PrincipalConstraint, ResourceConstraint};

use super::request::Request;
use super::schema::{Kind, Uid};

/// What a rule's head wants the asker, or the thing asked for, to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Want {
    is: Option<Kind>,
    /// `==` this, or with `true`, `in` it.
    at: Option<(Uid, bool)>,
}

/// Something with what it lies in.
pub(super) struct Thing<'a> {
    kind: Kind,
    id: &'a str,
    within: Vec<(Kind, &'a str)>,
}

impl<'a> Thing<'a> {
    /// Who asks, and what for.
    pub(super) fn of(request: &'a Request) -> [Self; 2] {
        let (who, asked) = (&request.principal, &request.resource);
        let parents: Vec<_> = who.parents.iter().map(|parent| (parent.kind, parent.id.as_str())).collect();
        // The asker itself, asked for: one thing has one set of parents.
        let within = match who.kind == asked.kind && who.id == asked.id {
            true => parents.clone(),
            false => asked.ancestors().into_iter().map(|id| (asked.kind, id)).collect(),
        };
        [Self { kind: who.kind, id: &who.id, within: parents }, Self { kind: asked.kind, id: &asked.id, within }]
    }

    /// Its name, and those of what it lies in.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        std::iter::once(self.id).chain(self.within.iter().map(|(_, id)| *id))
    }

    fn is(&self, uid: &Uid) -> bool {
        self.kind == uid.kind && self.id == uid.id
    }

    fn lies_in(&self, uid: &Uid) -> bool {
        self.is(uid) || self.within.iter().any(|(kind, id)| *kind == uid.kind && *id == uid.id)
    }
}

/// The head of a rule.
pub(super) struct Head {
    /// What it wants of who asks, and of what for.
    pub(super) wants: [Want; 2],
    /// Whether that is all it wants. If not, Cedar has to decide whether it fits.
    pub(super) exact: bool,
}

impl Head {
    pub(super) fn of(policy: &Policy) -> Self {
        let principal = match policy.principal_constraint() {
            PrincipalConstraint::Any => Some(Want::default()),
            PrincipalConstraint::Is(kind) => Want::new(Some(&kind), None, false),
            PrincipalConstraint::In(uid) => Want::new(None, Some(&uid), true),
            PrincipalConstraint::Eq(uid) => Want::new(None, Some(&uid), false),
            PrincipalConstraint::IsIn(kind, uid) => Want::new(Some(&kind), Some(&uid), true),
        };
        let resource = match policy.resource_constraint() {
            ResourceConstraint::Any => Some(Want::default()),
            ResourceConstraint::Is(kind) => Want::new(Some(&kind), None, false),
            ResourceConstraint::In(uid) => Want::new(None, Some(&uid), true),
            ResourceConstraint::Eq(uid) => Want::new(None, Some(&uid), false),
            ResourceConstraint::IsIn(kind, uid) => Want::new(Some(&kind), Some(&uid), true),
        };
        // A kind that isn't ours would fit everything here, and Cedar decides.
        let exact = principal.is_some() && resource.is_some();
        Self { wants: [principal.unwrap_or_default(), resource.unwrap_or_default()], exact }
    }
}

impl Want {
    /// The one thing that is or holds whatever fits.
    pub(super) fn named(&self) -> Option<&str> {
        self.at.as_ref().map(|(uid, _)| uid.id.as_str())
    }

    fn new(is: Option<&EntityTypeName>, at: Option<&EntityUid>, within: bool) -> Option<Self> {
        let kind = |name: &EntityTypeName| {
            Kind::ALL.into_iter().find(|kind| kind.name() == name.basename() && name.namespace().is_empty())
        };
        let is = is.map(|name| kind(name).ok_or(())).transpose().ok()?;
        let uid = |uid: &EntityUid| kind(uid.type_name()).map(|kind| Uid::new(kind, uid.id().unescaped())).ok_or(());
        let at = at.map(uid).transpose().ok()?.map(|uid| (uid, within));
        Some(Self { is, at })
    }

    pub(super) fn fits(&self, thing: &Thing<'_>) -> bool {
        self.is.is_none_or(|kind| kind == thing.kind)
            && match &self.at {
                None => true,
                Some((uid, true)) => thing.lies_in(uid),
                Some((uid, false)) => thing.is(uid),
            }
    }
}

/// As a rule writes it behind `principal` or `resource`.
impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kind) = self.is {
            write!(f, " is {}", kind.name())?;
        }
        match &self.at {
            None => Ok(()),
            Some((uid, true)) => write!(f, " in {uid}"),
            Some((uid, false)) => write!(f, " == {uid}"),
        }
    }
}
