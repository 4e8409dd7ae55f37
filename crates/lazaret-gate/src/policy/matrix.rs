//! Who may do what: a picture of a whole set, for people to read as a diff.

use super::context::{Context, RiskFacts};
use super::decide::Verdict;
use super::load::Policies;
use super::request::{Request, Who};
use super::schema::{ACTIONS, Action, Kind, Shape, Uid};
use crate::risk::RiskTier;

/// Who asks: one of each kind.
const ASKERS: [Kind; 6] = [Kind::Agent, Kind::App, Kind::Workflow, Kind::McpClient, Kind::Operator, Kind::Device];

/// A line of the matrix, beside the action.
struct Scene {
    resource: Uid,
    says: String,
    context: Context,
}

/// One line for each action and circumstance, one column for each kind of asker: `yes`, `ask`, `-` for no, and nothing
/// where the schema has no such ask.
pub fn matrix(policies: &Policies) -> String {
    let mut lines = vec![row("action", "what for", &ASKERS.map(|kind| kind.name().to_owned()))];
    for action in ACTIONS {
        for scene in scenes(action) {
            let cells = ASKERS.map(|kind| cell(policies, action, &scene, kind));
            lines.push(row(action.name, &format!("{} {}", scene.resource.id, scene.says), &cells));
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn row(action: &str, what: &str, cells: &[String; 6]) -> String {
    let [agent, app, workflow, client, operator, device] = cells;
    format!(
        "{action:<17} {:<41} {agent:<6} {app:<4} {workflow:<9} {client:<10} {operator:<9} {device}",
        what.trim_end()
    )
}

fn cell(policies: &Policies, action: &Action, scene: &Scene, kind: Kind) -> String {
    if !action.principals.contains(&kind) {
        return String::new();
    }
    let parents = kind.belongs_to().map(|above| Uid::new(above, "example")).into_iter().collect();
    let request = Request {
        principal: Who { kind, id: "example".to_owned(), parents },
        action: action.name.to_owned(),
        resource: scene.resource.clone(),
        context: scene.context.clone(),
    };
    let decision = policies.decide(&request);
    match decision.verdict {
        _ if !decision.errors.is_empty() => "error".to_owned(),
        Verdict::Allow => "yes".to_owned(),
        Verdict::Ask { .. } => "ask".to_owned(),
        Verdict::Deny => "-".to_owned(),
    }
}

/// Representative circumstances: each risk, the methods that matter, and the labels that must not meet a way out.
fn scenes(action: &Action) -> Vec<Scene> {
    let tiers = [RiskTier::Low, RiskTier::Medium, RiskTier::High];
    let plain = |tier: RiskTier, labels: &[&str]| Context {
        risk: RiskFacts { tier, score: 100 + 400 * tier as u32 },
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        run: "run".to_owned(),
        tier: "A".to_owned(),
        ..Context::default()
    };
    let seen = ["private", "untrusted"];
    let scene = |resource: &Uid, says: &str, context: Context| {
        let context = shaped(action.shape, context);
        Scene { resource: resource.clone(), says: says.to_owned(), context }
    };
    let mut found = Vec::new();
    for resource in things(action) {
        match action.shape {
            Shape::Http => {
                for (method, tier) in [("GET", RiskTier::Medium), ("POST", RiskTier::Medium), ("GET", RiskTier::High)] {
                    let context = Context { method: Some(method.to_owned()), ..plain(tier, &[]) };
                    found.push(scene(&resource, &format!("{method} {}", tier.name()), context));
                }
                let context = Context { method: Some("GET".to_owned()), ..plain(RiskTier::Medium, &seen) };
                found.push(scene(&resource, "GET private+untrusted", context));
            }
            Shape::Secret => {
                found.push(scene(&resource, "by name", plain(RiskTier::Low, &[])));
                let away = |tier, labels: &[&str]| Context {
                    host: Some("example.com".to_owned()),
                    method: Some("GET".to_owned()),
                    scheme: Some("https".to_owned()),
                    port: Some(443),
                    path: Some("/".to_owned()),
                    ..plain(tier, labels)
                };
                for tier in tiers {
                    found.push(scene(&resource, &format!("for GET {}", tier.name()), away(tier, &[])));
                }
                found.push(scene(&resource, "for GET private+untrusted", away(RiskTier::Medium, &seen)));
            }
            Shape::Plain if !matches!(action.family, "host.*" | "agent.*" | "admin.*") => {
                for tier in tiers {
                    found.push(scene(&resource, tier.name(), plain(tier, &[])));
                }
                found.push(scene(&resource, "private+untrusted", plain(RiskTier::Medium, &seen)));
            }
            _ => found.push(scene(&resource, "", plain(RiskTier::Low, &[]))),
        }
    }
    found
}

fn things(action: &Action) -> Vec<Uid> {
    let of = |kind: &Kind| match kind {
        Kind::Host => vec!["example.com"],
        Kind::Model => vec!["rehearsal/small", "provider/large"],
        Kind::Tool => vec!["mail.list"],
        Kind::Path => vec!["/usr/bin/env"],
        Kind::Secret => vec!["token"],
        Kind::Namespace if action.family == "admin.*" => vec!["keeper"],
        Kind::Namespace => vec!["own"],
        _ => vec!["other"],
    };
    action.resources.iter().flat_map(|kind| of(kind).into_iter().map(|id| Uid::new(*kind, id))).collect()
}

/// The facts that this sort of action comes with.
fn shaped(shape: Shape, context: Context) -> Context {
    match shape {
        Shape::Plain | Shape::Secret => context,
        Shape::Http => {
            Context { scheme: Some("https".to_owned()), port: Some(443), path: Some("/".to_owned()), ..context }
        }
        Shape::Storage => Context { path: Some("key".to_owned()), ..context },
        Shape::Message => Context { content_type: Some("text/plain".to_owned()), ..context },
    }
}
