//! Nor can the step before it.

use lazaret_gate::Effect;
use lazaret_gate::ledger::Reservation;
use lazaret_gate::stages::{Funded, seal};

fn forge(reservation: Reservation) {
    let _permit = seal(Funded { effect: Effect::ClockNow {}, number: 0, reservation });
}

fn main() {}
