//! Cache of selected algorithms. A selection simulates the best candidates. That takes from microseconds to
//! a tenth of a second between hosts. So communicators with the same layout share selections for similar
//! sizes, and so do the ranks of a node. The first rank that needs a selection searches; the others read
//! the result in the communicator's shared memory. All would find the same, so the result does not depend
//! on which rank searched.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_coll::generator::Node;
use tutti_coll::select::{self, Choice};
use tutti_coll::simulate::{Layout, Reach};
use tutti_coll::{Environment, Neighbours, Plan, Shape};
use tutti_sys::cpu;
use tutti_transport::banks::found::{Found, Look};

/// Maximum number of cached selections. A full cache is cleared: a program with so many kinds of operations
/// is not slowed by selecting some again.
const MOST: usize = 4096;

/// Longest wait for the selection of another rank. After it a rank selects itself, as the other may be
/// stopped or gone. It is much longer than a selection takes, since ranks that share processors slow each
/// other down.
const PATIENCE: Duration = Duration::from_millis(500);

/// Selected algorithms of this process, by kind of operation.
#[derive(Debug, Default)]
pub struct Choices(HashMap<Kind, Choice>);

/// Key of a selection: everything it depends on that varies within the process.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Kind {
    /// Part of the shape that is equal at all members.
    shape: Shape,
    node: Node,
    reach: Reach,
    multicast: bool,
    /// Address of the layout, where ranks are bound; the choice keeps it alive.
    layout: usize,
    /// Algorithm that the user requested, if any.
    forced: Option<String>,
}

/// Locations of a communicator's members, as far as they affect a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Anywhere in the job: no process is bound to processors.
    Job,
    /// At the places of this communicator's members.
    Communicator,
    /// In several jobs, of which no member knows more than the others.
    Several,
}

impl Whose {
    /// Returns a number that identifies a layout: its address if members are bound.
    pub(crate) fn address(self, layout: &Arc<Layout>) -> usize {
        match self {
            Whose::Job => 0,
            Whose::Communicator => Arc::as_ptr(layout) as usize,
            Whose::Several => usize::MAX,
        }
    }
}

impl Choices {
    /// Returns the plan for `shape`, for a rank with these neighbours. `whose` describes what the layout of
    /// the environment belongs to; `found` holds the selections of the communicator's members so far.
    pub fn plan(
        &mut self,
        shape: &Shape,
        environment: &Environment,
        whose: Whose,
        forced: Option<&str>,
        found: Option<Found<'_>>,
        neighbours: Option<&Arc<Neighbours>>,
    ) -> Plan {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let layout = whose.address(&environment.layout);
        let Environment { node, reach, multicast, .. } = *environment;
        let (shape_of_all, forced_name) = (select::common(shape, environment), forced.map(str::to_string));
        let kind = Kind { shape: shape_of_all, node, reach, multicast, layout, forced: forced_name };
        let choice = self.0.entry(kind).or_insert_with(|| match (forced, found) {
            (None, Some(found)) => shared(shape, environment, found),
            _ => select::select(shape, environment, forced),
        });
        Plan::chosen(shape, choice.clone(), neighbours)
    }
}

/// Returns the selection of another rank, or selects and publishes it for the others.
fn shared(shape: &Shape, environment: &Environment, found: Found<'_>) -> Choice {
    let choose = || select::select(shape, environment, None);
    let (key, since) = (select::key(shape, environment), Instant::now());
    loop {
        match found.look(key) {
            Look::Known(words) => {
                return Choice::of_words(words, shape, environment).unwrap_or_else(choose);
            }
            Look::Mine(place) => {
                let choice = choose();
                found.tell(place, key, choice.words());
                return choice;
            }
            Look::Busy if since.elapsed() < PATIENCE => cpu::yield_now(),
            Look::Busy | Look::Full => return choose(),
        }
    }
}
