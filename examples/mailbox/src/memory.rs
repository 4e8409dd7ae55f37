//! What the assistant remembers from turn to turn. Nothing here is written anywhere: it is this agent's memory, and the
//! host keeps that.

use std::cell::RefCell;

use crate::lazaret::host::types::Fault;

thread_local! {
    pub(crate) static MEMORY: RefCell<Memory> = RefCell::default();
}

const CATEGORIES: [&str; 6] = ["invoice", "meeting", "newsletter", "personal", "phishing", "unsorted"];

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) turns: u32,
    mails: Vec<Known>,
    counts: [usize; CATEGORIES.len()],
    refusals: Vec<String>,
}

struct Known {
    id: String,
    category: &'static str,
    subject: String,
    /// Kept for invoices only.
    body: String,
}

impl Memory {
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.mails.iter().any(|mail| mail.id == id)
    }

    /// Files a mail under the model's word for it, and returns the category it was filed under.
    pub(crate) fn remember(&mut self, id: &str, word: &str, subject: &str, body: &str) -> &'static str {
        let word = word.trim().to_lowercase();
        let index = CATEGORIES
            .iter()
            .position(|category| *category == word)
            .unwrap_or(CATEGORIES.len() - 1);
        let category = CATEGORIES[index];
        self.counts[index] += 1;
        let body = if category == "invoice" {
            body.to_string()
        } else {
            String::new()
        };
        self.mails.push(Known {
            id: id.to_string(),
            category,
            subject: subject.to_string(),
            body,
        });
        category
    }

    pub(crate) fn invoices(&self) -> String {
        let bodies = self
            .mails
            .iter()
            .filter(|mail| mail.category == "invoice")
            .map(|mail| mail.body.as_str());
        bodies.collect::<Vec<_>>().join("\n\n")
    }

    /// Says what could not be done and why, and remembers it if the gate said no.
    pub(crate) fn excuse(&mut self, what: &str, fault: &Fault) -> String {
        match fault {
            Fault::Refused(refusal) => {
                self.refusals.push(format!("{what}: {}", refusal.code));
                format!("Refused ({}): {}", refusal.code, refusal.reason)
            }
            Fault::Failed(text) => format!("I could not {what}: {text}"),
        }
    }

    /// `1 invoice, 2 meetings, 1 phishing.`
    pub(crate) fn summary(&self) -> String {
        let counted = CATEGORIES.iter().zip(self.counts).filter(|(_, count)| *count > 0);
        let parts: Vec<String> = counted
            .map(|(category, count)| match *category {
                "invoice" | "meeting" | "newsletter" => plural(count, category),
                _ => format!("{count} {category}"),
            })
            .collect();
        if parts.is_empty() {
            "No mail sorted yet.".into()
        } else {
            format!("{}.", parts.join(", "))
        }
    }

    pub(crate) fn report(&self) -> String {
        let mut lines = vec![
            format!("This is turn {} of my life. From memory alone:", self.turns),
            format!("{} so far. {}", plural(self.mails.len(), "mail"), self.summary()),
        ];
        lines.extend(
            self.mails
                .iter()
                .map(|mail| format!("  {:<12} {}  {}", mail.category, mail.id, mail.subject)),
        );
        lines.push(format!("{} so far.", plural(self.refusals.len(), "refusal")));
        lines.extend(self.refusals.iter().map(|refusal| format!("  {refusal}")));
        lines.join("\n")
    }
}

pub(crate) fn plural(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
