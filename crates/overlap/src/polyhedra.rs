//! Model of a region by sets and relations: instances of statements, their schedule, their accesses and
//! dependences.
//!
//! An instance of statement `n` is the point `S<n>[t, i, ...]`: the time, then the variables of its loops.
//! Cells of arrays are `a[x, y]`. `position` takes an instance to `P<nest>[t, c]`, its time and its
//! coordinate along the dimension that is distributed.

use crate::affine::Affine;
use crate::isl::{Isl, Map, Set};
use crate::region::{Access, Coordinate, Fit, Loop, Region, Statement};

/// A region in isl.
pub struct Model<'r> {
    /// Region that the model describes.
    pub region: &'r Region,
    /// Library that computes the sets.
    pub isl: Isl,
    /// All instances of statements.
    pub domain: Set,
    /// Schedule: relation of instances to tuples that grow with time.
    pub schedule: Map,
    /// Relation of instances to the cells that they write.
    pub writes: Map,
    /// Relation of instances to the cells that they read.
    pub reads: Map,
    /// Relation of the instance that wrote a value to each that reads it.
    pub flow: Map,
    /// Relation of each instance to later ones that access the same cell, if one of both writes it.
    pub memory: Map,
    /// Relation of instances to their nest, time and coordinate.
    pub position: Map,
}

impl<'r> Model<'r> {
    /// Returns the model of `region`.
    pub fn new(isl: Isl, region: &'r Region) -> Model<'r> {
        let depth = region.statements.iter().map(|s| s.position.len()).max().unwrap_or(0);
        let lines = |line: &dyn Fn(usize, &Statement) -> Vec<String>| {
            let all: Vec<String> =
                region.statements.iter().enumerate().flat_map(|(at, s)| line(at, s)).collect();
            format!("{} -> {{ {} }}", parameters(region, &[]), all.join("; "))
        };
        let tuple = |at: usize| tuple(region, at);
        let domain = isl.set(&lines(&|at, s| vec![format!("{} : {}", tuple(at), bounds(region, s))]));
        let when = |s: &Statement| {
            let mut all = vec![region.time.variable.clone(), s.nest.to_string()];
            all.extend(s.position.iter().cloned());
            all.resize(2 + depth, "0".to_string());
            all.join(", ")
        };
        let schedule = isl
            .map(&lines(&|at, s| vec![format!("{} -> [{}]", tuple(at), when(s))]))
            .restrict_domain(&domain);
        let writes = isl
            .map(&lines(&|at, s| s.write.iter().map(|a| format!("{} -> {}", tuple(at), cell(a))).collect()));
        let reads = isl
            .map(&lines(&|at, s| s.reads.iter().map(|a| format!("{} -> {}", tuple(at), cell(a))).collect()));
        let (writes, reads) = (writes.restrict_domain(&domain), reads.restrict_domain(&domain));
        let position = isl.map(&lines(&|at, s| {
            vec![format!(
                "{} -> P{}[{}, {}]",
                tuple(at),
                s.nest,
                region.time.variable,
                coordinate(region, s.nest)
            )]
        }));
        let before = schedule.before();
        let pairs = |first: &Map, second: &Map| first.then(&second.reverse()).intersect(&before);
        let memory = pairs(&writes, &reads).union(&pairs(&reads, &writes)).union(&pairs(&writes, &writes));
        let flow = isl.flow(&reads, &writes, &schedule).coalesce();
        let position = position.restrict_domain(&domain);
        Model { region, isl, domain, schedule, writes, reads, flow, memory: memory.coalesce(), position }
    }

    /// Returns the instances that satisfy `condition`, an expression of time, coordinate and nest. `extra`
    /// are further parameters in it.
    pub fn instances(&self, extra: &[&str], condition: &dyn Fn(&str, &str, usize) -> String) -> Set {
        let region = self.region;
        let all: Vec<String> = (region.statements.iter().enumerate())
            .map(|(at, s)| {
                let holds = condition(&region.time.variable, &coordinate(region, s.nest), s.nest);
                format!("{} : {holds}", tuple(region, at))
            })
            .collect();
        self.isl
            .set(&format!("{} -> {{ {} }}", parameters(region, extra), all.join("; ")))
            .intersect(&self.domain)
    }

    /// Returns the distance that `pairs` of instances span, from nest `from` to nest `to`: the least and the
    /// greatest value of the positions plus `slope` times the steps between them. `None` if there are no
    /// pairs.
    pub fn reach(
        &self,
        pairs: &Map,
        from: usize,
        to: usize,
        slope: i64,
    ) -> Option<(Option<i64>, Option<i64>)> {
        let end = |nest: usize| self.isl.map(&format!("{{ P{nest}[t, c] -> [t, c] }}"));
        let (first, second) = (self.position.then(&end(from)), self.position.then(&end(to)));
        let moved = first.reverse().then(pairs).then(&second);
        if moved.is_empty() {
            return None;
        }
        Some(moved.deltas().apply(&self.isl.map(&format!("{{ [t, c] -> [c + {slope} * t] }}"))).range())
    }

    /// Returns the least and the greatest number of steps between `pairs` of instances.
    pub fn steps(&self, pairs: &Map) -> Option<(Option<i64>, Option<i64>)> {
        let nests = 0..self.region.nests.len();
        let time: Vec<String> = nests.map(|nest| format!("P{nest}[t, c] -> [t]")).collect();
        let time = self.position.then(&self.isl.map(&format!("{{ {} }}", time.join("; "))));
        let moved = time.reverse().then(pairs).then(&time);
        if moved.is_empty() { None } else { Some(moved.deltas().range()) }
    }

    /// Returns the relation of each cell to the instance that writes it last.
    pub fn last_writers(&self) -> Map {
        self.writes.reverse().then(&self.schedule).lexmax().then(&self.schedule.reverse())
    }

    /// Returns the condition in C, with names of isl, under which a number of the region does not fit its
    /// type, or `None` if all do, whatever the sizes are.
    pub fn misfit(&self) -> Option<String> {
        let bad: Vec<String> = self.region.fits.iter().map(misfit).collect();
        if bad.is_empty() {
            return None;
        }
        let set = format!("{} -> {{ : {} }}", parameters(self.region, &[]), bad.join(" or "));
        self.isl.condition(&set, &self.sizes())
    }

    /// Returns the elements of each array that the region accesses, statement by statement. The parts are the
    /// array, the condition under which there are any, and the bounds of each subscript. Expressions are in
    /// C, with names of isl.
    pub fn touched(&self) -> Vec<(&'r str, String, Vec<[String; 2]>)> {
        let (region, sizes) = (self.region, self.sizes());
        let mut found: Vec<(&str, String, Vec<[String; 2]>)> = Vec::new();
        for (at, statement) in region.statements.iter().enumerate() {
            let own = |name: &str| {
                let all = statement.write.iter().chain(&statement.reads).filter(|one| one.array == name);
                all.map(|one| format!("{} -> {}", tuple(region, at), cell(one))).collect::<Vec<String>>()
            };
            for (name, array) in &region.arrays {
                let lines = own(name);
                if lines.is_empty() {
                    continue;
                }
                let text = format!("{} -> {{ {} }}", parameters(region, &[]), lines.join("; "));
                let cells = self.isl.map(&text).restrict_domain(&self.domain).range().coalesce();
                let extent = self.isl.extent(&cells, array.dimensions, &sizes);
                found.extend(extent.map(|(when, ends)| (name.as_str(), when, ends)));
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Returns the conditions that all sizes fulfil where the region has steps.
    fn sizes(&self) -> String {
        let region = self.region;
        let mut all = vec![format!("{} < {}", region.time.low, region.time.high)];
        for (name, parameter) in &region.parameters {
            all.push(format!("{} <= {name} <= {}", parameter.range.0, parameter.range.1));
        }
        format!("{} -> {{ : {} }}", parameters(region, &[]), all.join(" and "))
    }

    /// Returns a set of parameters, as text for [`Isl::loops`].
    pub fn context(&self, extra: &[&str], conditions: &[String]) -> String {
        format!("{} -> {{ : {} }}", parameters(self.region, extra), conditions.join(" and "))
    }

    /// Loops over `cells`, with the constraints `context`, array by array; cells stand there as `a(x, y);`.
    pub fn loops(&self, cells: &Set, context: &str, iterators: &[String]) -> String {
        let most = self.region.arrays.values().map(|array| array.dimensions).max().unwrap_or(0);
        let order: Vec<String> = (self.region.arrays.iter().enumerate())
            .map(|(at, (name, array))| {
                let subscripts: Vec<String> = (0..array.dimensions).map(|d| format!("x{d}")).collect();
                let mut when = vec![at.to_string()];
                when.extend(subscripts.iter().cloned());
                when.resize(1 + most, "0".into());
                format!("{name}[{}] -> [{}]", subscripts.join(", "), when.join(", "))
            })
            .collect();
        let order = self.isl.map(&format!("{{ {} }}", order.join("; "))).restrict_domain(&cells.coalesce());
        let names: Vec<String> =
            std::iter::once("unused".to_string()).chain(iterators[..most].iter().cloned()).collect();
        self.isl.loops(&order, context, &names)
    }
}

/// Returns the least number for which `holds` is true, among 64 numbers beginning with `from`.
pub fn least(from: i64, holds: impl Fn(i64) -> bool) -> Option<i64> {
    (from..from + 64).find(|number| holds(*number))
}

/// Returns the range of coordinates of each nest: the first one, and the one after the last. For a loop it
/// covers all iterations of the outer loops.
pub fn extents(region: &Region) -> Vec<(Affine, Affine)> {
    let one = Affine::constant(1);
    let extent = |(at, coordinate): (usize, &Coordinate)| match coordinate {
        Coordinate::Loop(own) => {
            let around = loops_around(region, at, own);
            (extreme(&own.low, &around, false), extreme(&own.high, &around, true))
        }
        Coordinate::Fixed(place) => (place.clone(), place.clone().plus(1, &one)),
    };
    region.nests.iter().map(|nest| &nest.coordinate).enumerate().map(extent).collect()
}

/// Returns the loops around the loop `own` of the nest `at`, beginning with the loop over time.
fn loops_around<'r>(region: &'r Region, at: usize, own: &Loop) -> Vec<&'r Loop> {
    let all = region.statements.iter().filter(|one| one.nest == at).map(|one| &one.loops);
    let inside = all.into_iter().find(|loops| loops.iter().any(|one| one.header == own.header));
    let before = inside.into_iter().flatten().take_while(|one| one.header != own.header);
    std::iter::once(&region.time).chain(before).collect()
}

/// Returns the least or, if `is_greatest`, the greatest value of `end` in all iterations of the loops
/// `around`.
fn extreme(end: &Affine, around: &[&Loop], is_greatest: bool) -> Affine {
    around.iter().rev().fold(end.clone(), |end, one| {
        let last = one.high.clone().plus(-1, &Affine::constant(1));
        let is_rising = end.factor(&one.variable) > 0;
        end.substitute(&one.variable, if is_rising == is_greatest { &last } else { &one.low })
    })
}

/// Returns the condition that a number does not fit its type, in isl's language.
fn misfit(fit: &Fit) -> String {
    let names: Vec<&str> = fit.loops.iter().map(|one| one.variable.as_str()).collect();
    let mut all: Vec<String> =
        fit.loops.iter().map(|one| format!("{} <= {} < {}", one.low, one.variable, one.high)).collect();
    if !fit.and.is_empty() {
        all.push(fit.and.clone());
    }
    let (value, (least, most)) = (&fit.value, fit.held);
    all.push(format!("({value} < {least} or {value} > {most})"));
    all.push(format!("{} <= {value} <= {}", fit.possible.0, fit.possible.1));
    match names.is_empty() {
        true => format!("({})", all.join(" and ")),
        false => format!("(exists {} : {})", names.join(", "), all.join(" and ")),
    }
}

fn parameters(region: &Region, extra: &[&str]) -> String {
    let mut all: Vec<&str> = region.parameters.keys().map(String::as_str).collect();
    for name in extra {
        if !all.contains(name) {
            all.push(name);
        }
    }
    format!("[{}]", all.join(", "))
}

fn tuple(region: &Region, at: usize) -> String {
    let loops = region.statements[at].loops.iter().map(|l| l.variable.as_str());
    let all: Vec<&str> = std::iter::once(region.time.variable.as_str()).chain(loops).collect();
    format!("S{at}[{}]", all.join(", "))
}

fn bounds(region: &Region, statement: &Statement) -> String {
    let all: Vec<String> = std::iter::once(&region.time)
        .chain(&statement.loops)
        .map(|l| format!("{} <= {} < {}", l.low, l.variable, l.high))
        .collect();
    all.join(" and ")
}

fn cell(access: &Access) -> String {
    let subscripts: Vec<String> = access.subscripts.iter().map(Affine::to_string).collect();
    format!("{}[{}]", access.array, subscripts.join(", "))
}

fn coordinate(region: &Region, nest: usize) -> String {
    match &region.nests[nest].coordinate {
        Coordinate::Loop(own) => own.variable.clone(),
        Coordinate::Fixed(place) => place.to_string(),
    }
}
