//! What must not get out, looked for in what goes out; and taken out of what comes in.
//!
//! Two questions, each with its own answer:
//!
//! - [`Guard`]: is a value of the vault in these bytes? It knows the values, so it finds each of them as it is, in base64
//!   (also inside of a larger encoded text), in hex, and under up to three layers of percent, JSON and HTML escapes of
//!   whatever bytes an encoder chose to escape. [`Guard::redact`] puts `[lazaret-secret:SLOT]` in their place.
//! - [`Shapes`]: does something in these bytes look like a credential, whoever it belongs to? The shapes are data:
//!   `policy/shapes.toml`.
//!
//! Both work on pieces of a stream too ([`Scanner`], [`Redactor`], [`Sniffer`]) and answer as for the whole, however it
//! was cut. An answer names the slot or the shape and never holds the value; nothing here prints one.
//!
//! What a guard does not see: values that were compressed, encrypted, cut into pieces, reversed, encoded twice by base64
//! or hex, broken over the lines of base64, or written in another alphabet; nor one whose characters were escaped now by
//! this encoder and now by that one. It is a net under the broker, not the broker.

mod escapes;
mod filter;
mod forms;
mod guard;
pub mod limits;
mod shapes;
mod stream;

pub use forms::{Form, Misfit, fit};
pub use guard::{Guard, Hit, Unfit};
pub use shapes::{BadShapes, Likeness, Shapes, Sniffer};
pub use stream::{Redactor, Scanner};
