//! Which algorithms this process has chosen. Choosing simulates the best candidates, which takes from microseconds to
//! milliseconds, so communicators that are alike share the choices for sizes that are alike.

use std::collections::HashMap;
use std::sync::Arc;

use tutti_coll::registry::Node;
use tutti_coll::select::{self, Choice};
use tutti_coll::{Environment, Plan, Shape};

/// More are forgotten all at once: a program that has so many kinds of operations is not slowed by choosing some again.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub struct Choices(HashMap<Kind, Choice>);

/// What a choice depends on, beyond what is the same for all of the process.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Kind {
    shape: Shape,
    node: Node,
    /// Address of the layout, where ranks are bound; the choice keeps it alive.
    layout: usize,
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

impl Choices {
    /// The plan for `shape`; `whose` says what the layout of the environment belongs to.
    pub fn plan(
        &mut self,
        shape: &Shape,
        environment: &Environment,
        whose: Whose,
        forced: Option<&str>,
    ) -> Plan {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let layout = match whose {
            Whose::Job => 0,
            Whose::Communicator => Arc::as_ptr(&environment.layout) as usize,
            Whose::Several => usize::MAX,
        };
        let kind = Kind { shape: select::common(shape, environment), node: environment.node, layout };
        let choice = self.0.entry(kind).or_insert_with(|| select::select(shape, environment, forced));
        Plan::chosen(shape, choice.clone())
    }
}
