//! Algorithms that were chosen last, and the areas of variables and events.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use tutti_coll::{Collective, registry};

use super::Names;

/// Areas to which variables and events belong: name and description.
pub const AREAS: [(&str, &str); 4] = [
    ("tutti_traffic", "messages and bytes by the way they take: to itself, within the host, between hosts"),
    ("tutti_network", "datagrams and connections between hosts"),
    ("tutti_matching", "messages and receives that wait for each other"),
    ("tutti_collectives", "algorithms of collective operations"),
];

/// Index of the algorithm that was chosen last for each collective, among the algorithms of the collective;
/// -1 if none was.
pub(crate) static CHOSEN: [AtomicI32; Collective::EVERY.len()] =
    [const { AtomicI32::new(-1) }; Collective::EVERY.len()];

/// Notes a choice. Returns the index of the algorithm among those of its collective.
pub fn chosen(collective: Collective, algorithm: &str) -> i32 {
    let number = number_of(collective);
    let place =
        algorithms(number).iter().position(|name| *name == algorithm).map_or(-1, |place| place as i32);
    CHOSEN[number].store(place, Ordering::Relaxed);
    place
}

/// Returns the index of a collective in [`Collective::EVERY`].
pub fn number_of(collective: Collective) -> usize {
    Collective::EVERY.iter().position(|one| *one == collective).expect("all collectives are listed")
}

/// Returns the names of the algorithms of a collective, given by its index.
pub fn algorithms(collective: usize) -> Names {
    static NAMES: OnceLock<Vec<Names>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let of = |collective: &Collective| -> Names {
            let named = registry().iter().filter(|one| one.collective == *collective).map(|one| one.name);
            named.collect::<Vec<_>>().leak()
        };
        Collective::EVERY.iter().map(of).collect()
    })[collective]
}

/// Returns the names of all collectives.
pub fn collectives() -> Names {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| Collective::EVERY.map(Collective::name).to_vec())
}
