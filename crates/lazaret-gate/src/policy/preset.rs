//! The sets that are shipped.

/// The presets by name, strictest first. The first is what an operator has who has chosen nothing.
pub const PRESETS: [&str; 3] = ["locked-down", "balanced", "open"];

/// A preset as file name and text.
pub fn preset(name: &str) -> Option<(&'static str, &'static str)> {
    match name {
        "locked-down" => Some(("default.cedar", include_str!("../../../../policy/default.cedar"))),
        "balanced" => Some(("balanced.cedar", include_str!("../../../../policy/balanced.cedar"))),
        "open" => Some(("open.cedar", include_str!("../../../../policy/open.cedar"))),
        _ => None,
    }
}
