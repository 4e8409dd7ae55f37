//! Nor can the step before it.

use lazaret_gate::ledger::Reservation;
use lazaret_gate::stages::{Funded, seal};
use lazaret_gate::{Effect, Labels};

fn forge(reservation: Reservation) {
    let funded = Funded { effect: Effect::ClockNow {}, number: 0, reservation, limit: None };
    let _permit = seal(funded, Labels::new());
}

fn main() {}
