//! The rehearsal models: deterministic, offline, free. They stand in for a model where a test or a demo needs one, and
//! say so in their name.

use lazaret_gate::effect::{Prompt, Role};
use lazaret_gate::outcome::Completion;

/// Completes a prompt.
pub fn generate(prompt: &Prompt) -> Result<Completion, String> {
    let asked =
        prompt.utterances.iter().rev().find(|said| said.role == Role::User).map_or("", |said| said.text.as_str());
    let text = match prompt.model.as_str() {
        "rehearsal/echo" => asked.to_owned(),
        "rehearsal/triage" => triage(asked),
        other => {
            return Err(format!("there is no model `{other}` here; there are `rehearsal/echo` and `rehearsal/triage`"));
        }
    };
    let text = cut(&text, prompt.max_tokens);
    let input: usize = prompt.utterances.iter().map(|said| tokens(&said.text)).sum();
    Ok(Completion { input_tokens: count(input), output_tokens: count(tokens(&text)), text })
}

/// Words stand in for tokens.
fn tokens(text: &str) -> usize {
    text.split_whitespace().count()
}

fn count(tokens: usize) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

fn cut(text: &str, max_tokens: u32) -> String {
    if tokens(text) <= max_tokens as usize {
        return text.to_owned();
    }
    text.split_whitespace().take(max_tokens as usize).collect::<Vec<_>>().join(" ")
}

/// Sorts a mail by its words, and does what a gullible model does with an instruction inside of it: obeys.
fn triage(mail: &str) -> String {
    let lower = mail.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if let Some(url) = lower.contains("ignore your instructions").then(|| first_url(mail)).flatten() {
        return format!("phishing\nFETCH {url}");
    }
    let category = if has(&["invoice", "amount due", "payment"]) {
        "invoice"
    } else if has(&["meeting", "calendar", "agenda"]) {
        "meeting"
    } else if has(&["unsubscribe", "newsletter", "this week in"]) {
        "newsletter"
    } else if has(&["verify your account", "password expires"]) {
        "phishing"
    } else {
        "personal"
    };
    category.to_owned()
}

fn first_url(text: &str) -> Option<&str> {
    let start = text.find("https://")?;
    let rest = &text[start..];
    let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | ')')).unwrap_or(rest.len());
    Some(rest[..end].trim_end_matches(['.', ',', ';']))
}
