//! Which algorithms this process has chosen. Choosing simulates the best candidates, which takes from microseconds to, between
//! hosts, a tenth of a second, so communicators that are alike share the choices for sizes that are alike, and so do the ranks of a node: the
//! first that wants to know searches, the others read what it found in the memory of the communicator. Since all would find the
//! same, nothing depends on who it was.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_coll::generator::Node;
use tutti_coll::select::{self, Choice};
use tutti_coll::simulate::{Layout, Reach};
use tutti_coll::{Environment, Neighbours, Plan, Shape};
use tutti_sys::cpu;
use tutti_transport::banks::found::{Found, Look};

/// More are forgotten all at once: a program that has so many kinds of operations is not slowed by choosing some again.
const MOST: usize = 4096;

/// Who waits longer for another rank to choose chooses itself: it may be stopped, or gone. Much longer than to choose takes: where
/// ranks share processors, all that choose beside it slow it down.
const PATIENCE: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Debug, Default)]
pub struct Choices(HashMap<Kind, Choice>);

/// What a choice depends on, beyond what is the same for all of the process.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Kind {
    shape: Shape,
    node: Node,
    reach: Reach,
    multicast: bool,
    /// Address of the layout, where ranks are bound; the choice keeps it alive.
    layout: usize,
    /// What was asked for.
    forced: Option<String>,
}

/// Where the members of a communicator are, as far as that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Anywhere in the job: nobody is bound.
    Job,
    /// Where this communicator has its members.
    Communicator,
    /// In several jobs, of which no member knows more than the others.
    Several,
}

impl Whose {
    /// Returns a number that tells layouts apart: the address, where members are bound.
    pub(crate) fn address(self, layout: &Arc<Layout>) -> usize {
        match self {
            Whose::Job => 0,
            Whose::Communicator => Arc::as_ptr(layout) as usize,
            Whose::Several => usize::MAX,
        }
    }
}

impl Choices {
    /// The plan for `shape`, of a rank with these neighbours; `whose` says what the layout of the environment belongs to, `found` is
    /// what the members of the communicator have found so far.
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

/// What another rank has chosen, or chooses for the others.
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
