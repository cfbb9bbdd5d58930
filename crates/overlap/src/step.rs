//! Distribution by steps: each nest ends with an exchange, while the inner part of the next nest is computed.
//!
//! Blocks are intervals of the coordinate, the same in each step. A nest can be distributed if no dependence
//! between its instances of one step connects two coordinates. Its instances may then run in any order, and
//! other nests or earlier steps have written the values that it needs of neighbours. Values that nest `n` has
//! written and a neighbour reads form one message in each direction. The message is sent after `n`. It is
//! unpacked before the first following nest, around the loop over time, that reads any of it. This hides no
//! value. A value that is read was the last written before its reader, so no other instance writes the cell
//! between `n` and the reader. An instance that reads the cell between `n` and that nest would itself be a
//! reader of the message.

use crate::isl::{Map, Set};
use crate::polyhedra::{Model, least};

/// Message that one nest sends to one side.
pub struct Message {
    /// The nest that has written it.
    pub from: usize,
    /// True for the right neighbour, false for the left one.
    pub is_up: bool,
    /// The nest before which it must be there.
    pub before: usize,
    /// The cells, for the step t0 and the border between the blocks.
    pub cells: Set,
}

/// Distribution of a region by steps.
pub struct Steps {
    /// All messages, by nest.
    pub messages: Vec<Message>,
    /// Distance from the border, for each nest, within which instances can need values received before the
    /// nest.
    pub margins: Vec<i64>,
    /// Distance from the border, for each nest, within which it writes values that it sends.
    pub ready: Vec<i64>,
    /// Blocks are at least so wide.
    pub least: i64,
    /// The cells that a block [begin, end) has in the end.
    pub owned: Set,
}

/// StepNames of the parameters in the sets.
pub struct StepNames<'n> {
    /// Name of the variable for the step.
    pub step: &'n str,
    /// The border between two blocks.
    pub border: &'n str,
    /// First coordinate of a block.
    pub begin: &'n str,
    /// The coordinate after its last.
    pub end: &'n str,
}

/// Finds the messages for a region, or returns the reason why steps are not legal.
pub fn plan(model: &Model, names: &StepNames) -> Result<Steps, String> {
    let count = model.region.nests.len();
    if let Some(nest) = (0..count).find(|nest| !is_parallel(model, *nest)) {
        return Err(format!(
            "the nest in line {} has an order along the loop that is distributed",
            model.region.nests[nest].place.line
        ));
    }
    let least = least(1, |width| {
        let far = |relation: String| model.instances(&["border"], &|_, c, _| format!("{c} {relation}"));
        let (left, right) = (far("< border".into()), far(format!(">= border + {width}")));
        model.flow.restrict_domain(&left).restrict_range(&right).is_empty()
            && model.flow.restrict_domain(&right).restrict_range(&left).is_empty()
    });
    let least = least.ok_or("a value is needed farther away than in the next block")?;
    let messages: Vec<Message> = (0..count)
        .flat_map(|nest| {
            [true, false].into_iter().filter_map(move |is_up| message(model, names, nest, is_up))
        })
        .collect();
    let touched = model.writes.union(&model.reads);
    let near = |is_received: bool| {
        let all = (0..count).map(|nest| {
            let own = messages.iter().filter(|m| if is_received { m.before == nest } else { m.from == nest });
            margin(
                model,
                names.border,
                if is_received { &touched } else { &model.writes },
                nest,
                is_received,
                own,
            )
        });
        all.collect::<Option<Vec<i64>>>().ok_or("every part of a block needs what comes from its neighbours")
    };
    let (margins, ready) = (near(true)?, near(false)?);
    let own = model
        .instances(&[names.begin, names.end], &|_, c, _| format!("{} <= {c} < {}", names.begin, names.end));
    let owned = model.last_writers().restrict_range(&own).domain().coalesce();
    Ok(Steps { messages, margins, ready, least, owned })
}

/// Returns true if the instances of a nest in one step may be done in any order along the coordinate.
pub fn is_parallel(model: &Model, nest: usize) -> bool {
    let end = model.isl.map(&format!("{{ P{nest}[t, c] -> [t, c] }}"));
    let place = model.position.then(&end);
    let moved = place.reverse().then(&model.memory).then(&place).deltas();
    let same_step = model.isl.set("{ [0, c] : c != 0 }");
    moved.is_empty() || moved.intersect(&same_step).is_empty()
}

fn message(model: &Model, names: &StepNames, nest: usize, is_up: bool) -> Option<Message> {
    let (border, step) = (names.border, names.step);
    let side = |is_left: bool| format!("{} {border}", if is_left { "<" } else { ">=" });
    let writers = model.instances(&[border, step], &|t, c, n| match n == nest {
        true => format!("{t} = {step} and {c} {}", side(is_up)),
        false => "1 = 0".to_string(),
    });
    let readers = model.instances(&[border, step], &|_, c, _| format!("{c} {}", side(!is_up)));
    let pairs = model.flow.restrict_domain(&writers).restrict_range(&readers);
    if pairs.is_empty() {
        return None;
    }
    let before = first_reader(model, &pairs, nest);
    Some(Message { from: nest, is_up, before, cells: pairs.domain().apply(&model.writes).coalesce() })
}

/// Returns the nest with a reader that comes first after `nest`, around the loop over time.
fn first_reader(model: &Model, pairs: &Map, nest: usize) -> usize {
    let count = model.region.nests.len();
    let reads = |reader: usize| {
        let own = model
            .instances(&[], &|_, _, n| if n == reader { "0 = 0".to_string() } else { "1 = 0".to_string() });
        !pairs.restrict_range(&own).is_empty()
    };
    (1..=count)
        .map(|distance| (nest + distance) % count)
        .find(|reader| reads(*reader))
        .expect("pairs has a reader")
}

/// Returns the distance from the border within which instances of `nest` touch cells of the `messages`.
/// `touched` is the relation of the accesses. For received messages, the instances are on the destination's
/// side of the border; for sent ones, on the source's side.
fn margin<'m>(
    model: &Model,
    border: &str,
    touched: &Map,
    nest: usize,
    is_received: bool,
    messages: impl Iterator<Item = &'m Message>,
) -> Option<i64> {
    let messages: Vec<&Message> = messages.collect();
    least(0, |margin| {
        messages.iter().all(|message| {
            let is_right = message.is_up == is_received;
            let inner =
                if is_right { format!(">= {border} + {margin}") } else { format!("< {border} - {margin}") };
            let instances = model.instances(&[border], &|_, c, n| match n == nest {
                true => format!("{c} {inner}"),
                false => "1 = 0".to_string(),
            });
            instances.apply(touched).intersect(&message.cells).is_empty()
        })
    })
}
