//! Estimate of the gain by multicast, for hosts of which it is not known yet whether they have multicast.

use super::usable::{allowed, floods, situation};
use super::{Choice, EQUAL, closed_form};
use crate::cost::Environment;
use crate::generator::Need;
use crate::registry::registry;

impl Choice {
    /// Returns true if, by closed forms, the operation might take less time with multicast between the hosts.
    /// It is then worth finding out whether there is multicast, after which the selection is repeated. Equal
    /// on all ranks.
    pub fn may_be_slower_than_multicast(&self) -> bool {
        let environment = Environment { multicast: true, ..self.environment.clone() };
        let shape = &self.shape;
        let possible = registry().iter().filter(|generator| {
            generator.collective == shape.collective
                && generator.requires(Need::Multicast)
                && generator.meets(&situation(shape, &environment)).is_ok()
        });
        let mut times = possible.flat_map(|generator| {
            let candidates = generator.candidates(shape).into_iter().filter(|params| {
                allowed(generator, params, shape, &environment)
                    && !floods(generator, params, shape, &environment)
            });
            candidates.map(|params| closed_form(generator, shape, &params, &environment)).collect::<Vec<_>>()
        });
        !self.is_forced() && times.any(|time| time < EQUAL * self.time)
    }
}
