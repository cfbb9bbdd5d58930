//! Inquiry into a hang, at the root. It is pure: states of the ranks and the time go in, requests and reports
//! come out.
//!
//! A rank that begins to wait for long causes an inquiry. The first collection of cards asks for the waits
//! alone. If ranks seem stuck, a second one follows after [`PAUSE`], which also asks for the places in the
//! program. A rank counts as waiting if it was in the same wait both times. Then all waits of the graph
//! existed at one time between the collections, and every message sent before the first one has been taken in
//! before the second. So the graph is no mixture of several times.
//!
//! | state | event | consequence |
//! |---|---|---|
//! | idle | a rank waits for long | first collection |
//! | first collection | nothing is stuck | idle; again after twice the time while ranks wait |
//! | first collection | ranks are stuck | pause, then second collection |
//! | second collection | ranks are stuck for certain | report, once for each chain of ranks |
//! | second collection | they seem stuck | report, if they did before |
//! | first collection | the same ranks are outside waits for [`HINT`] times the time | hint, once |

use std::time::Duration;

use tutti_hang::{Card, Cause, Certainty, Finding, RankStatus, json, judge, message};

use crate::tree::message::{RankCard, Seen};

/// Time between the two collections of an inquiry.
pub const PAUSE: Duration = Duration::from_millis(1200);
/// Number of times of waiting after which ranks outside waits are worth a hint.
const HINT: u32 = 12;
/// Longest time between two inquiries.
const LONGEST: Duration = Duration::from_secs(60);
/// Maximum number of reports about a job.
const MOST_REPORTS: usize = 3;

/// Step that the launcher must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Collects the cards of all ranks, under this number. An odd number asks for places too.
    Collect(u32),
    /// Shows a report.
    Report(Report),
}

/// Report of a hang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Lines for the user.
    pub lines: Vec<String>,
    /// Everything that is known, as JSON.
    pub json: String,
    /// True if no rank outside waits can release the stuck ranks.
    pub is_proved: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Idle,
    First,
    Pausing(Duration),
    Second,
}

/// Wait of a rank: its start in nanoseconds of its host, and its standing.
type Known = (u64, RankStatus);

/// Inquiries of a job.
#[derive(Debug)]
pub struct Inquest {
    /// Time of waiting that is long.
    after: Duration,
    ranks: usize,
    state: State,
    request: u32,
    /// Result of the first collection.
    first: Vec<Known>,
    /// Time of the next inquiry that no event causes.
    next: Option<Duration>,
    /// Time between two such inquiries.
    step: Duration,
    /// True if a rank began to wait during an inquiry.
    is_wanted: bool,
    /// Ranks of the chains that were reported.
    reported: Vec<Vec<u32>>,
    /// Ranks of the chain that seemed stuck in the last inquiry.
    suspected: Vec<u32>,
    /// Finding about ranks outside waits, and since when it is the same.
    outside: Option<(Cause, Duration)>,
    has_hinted: bool,
}

impl Inquest {
    /// Creates the inquiries of a job with `ranks` ranks. A wait is long after `after`.
    pub fn new(ranks: usize, after: Duration) -> Inquest {
        Inquest {
            after,
            ranks,
            state: State::Idle,
            request: 0,
            first: Vec::new(),
            next: None,
            step: after,
            is_wanted: false,
            reported: Vec::new(),
            suspected: Vec::new(),
            outside: None,
            has_hinted: false,
        }
    }

    /// Begins the numbers of requests after this one. Ranks of a checkpoint still have the cards of an
    /// earlier mpirun, which must not be taken for answers.
    #[must_use]
    pub fn counting_from(self, request: u32) -> Inquest {
        Inquest { request, ..self }
    }

    /// Handles the report that a rank has begun to wait for long.
    pub fn long_wait(&mut self, now: Duration) -> Option<Step> {
        self.step = self.after;
        if self.state == State::Idle {
            Some(self.begin(now))
        } else {
            self.is_wanted = true;
            None
        }
    }

    /// Returns the time at which [`Inquest::tick`] must be called next, if any.
    pub fn deadline(&self) -> Option<Duration> {
        match self.state {
            State::Idle => self.next,
            State::Pausing(until) => Some(until),
            State::First | State::Second => None,
        }
    }

    /// Performs what is due.
    pub fn tick(&mut self, now: Duration) -> Option<Step> {
        match self.state {
            State::Idle if self.next.is_some_and(|at| at <= now) => Some(self.begin(now)),
            State::Pausing(until) if until <= now => {
                self.state = State::Second;
                Some(self.collect(true))
            }
            _ => None,
        }
    }

    /// Handles the states of the ranks.
    pub fn cards(&mut self, request: u32, cards: &[RankCard], now: Duration) -> Option<Step> {
        if request != self.request {
            return None;
        }
        let known = self.read(cards);
        match self.state {
            State::First => self.judge_first(known, now),
            State::Second => self.judge_second(known, now),
            State::Idle | State::Pausing(_) => None,
        }
    }

    fn begin(&mut self, now: Duration) -> Step {
        self.state = State::First;
        self.is_wanted = false;
        self.next = Some(now + self.step);
        self.step = (2 * self.step).min(LONGEST.max(self.after));
        self.collect(false)
    }

    fn collect(&mut self, with_places: bool) -> Step {
        // Odd numbers ask for places. The first number is 2, as 0 stands for no request.
        self.request =
            if with_places { self.request | 1 } else { (self.request & !1).wrapping_add(2).max(2) };
        Step::Collect(self.request)
    }

    /// Returns the standing of every rank. A rank of a host that is lost is unknown.
    fn read(&self, cards: &[RankCard]) -> Vec<Known> {
        let mut known = vec![(0, RankStatus::Unknown("unknown".to_string())); self.ranks];
        for card in cards {
            let Some(place) = known.get_mut(card.rank as usize) else { continue };
            *place = match &card.seen {
                Seen::Computing => (0, RankStatus::Computing),
                Seen::Unknown(why) => (0, RankStatus::Unknown(why.clone())),
                Seen::Ended => (0, RankStatus::Left),
                Seen::Waiting(since_ns, bytes) => match Card::decode(bytes) {
                    Some(card) => (*since_ns, RankStatus::Waiting(card)),
                    None => (0, RankStatus::Unknown("its state cannot be read".to_string())),
                },
            };
        }
        known
    }

    fn judge_first(&mut self, known: Vec<Known>, now: Duration) -> Option<Step> {
        let standings: Vec<RankStatus> = known.iter().map(|(_, standing)| standing.clone()).collect();
        let findings = judge(&standings);
        if findings.iter().any(|finding| finding.certainty != Certainty::Possible) {
            self.outside = None;
            self.first = known;
            self.state = State::Pausing(now + PAUSE);
            return None;
        }
        self.suspected.clear();
        let hint = self.consider_hint(&standings, findings, now);
        self.rest(&standings, now).or(hint)
    }

    /// Returns a hint if the same ranks have been outside waits for long.
    fn consider_hint(
        &mut self,
        standings: &[RankStatus],
        findings: Vec<Finding>,
        now: Duration,
    ) -> Option<Step> {
        // Somebody debugs the job, or has stopped it.
        let is_disturbed = standings.iter().any(|standing| matches!(standing, RankStatus::Unknown(_)));
        let cause = findings.first().filter(|_| !is_disturbed).map(|finding| finding.cause.clone());
        let Some(cause) = cause else {
            self.outside = None;
            return None;
        };
        let since = match &self.outside {
            Some((known, since)) if *known == cause => *since,
            _ => now,
        };
        self.outside = Some((cause, since));
        if self.has_hinted || now - since < self.after * HINT {
            return None;
        }
        self.has_hinted = true;
        Some(report(standings, &findings))
    }

    fn judge_second(&mut self, known: Vec<Known>, now: Duration) -> Option<Step> {
        let first = std::mem::take(&mut self.first);
        let standings = settle(&first, &known);
        let mut findings = judge(&standings);
        findings.retain(|finding| finding.certainty != Certainty::Possible);
        findings.retain(|finding| !self.reported.contains(&members(finding)));
        let chains: Vec<Vec<u32>> = findings.iter().map(members).collect();
        let first_chain = chains.first().cloned().unwrap_or_default();
        let is_proved = findings.iter().any(|finding| finding.certainty == Certainty::Certain);
        let was_suspected = std::mem::replace(&mut self.suspected, first_chain.clone()) == first_chain;
        let is_reported = !findings.is_empty() && (is_proved || was_suspected);
        if !findings.is_empty() && !is_reported {
            self.next = Some(now + PAUSE);
        }
        let step = self.rest(&standings, now);
        if !is_reported || self.reported.len() >= MOST_REPORTS {
            return step;
        }
        self.reported.extend(chains);
        // An inquiry that is due waits for the next event.
        self.state = State::Idle;
        Some(report(&standings, &findings))
    }

    /// Ends an inquiry, and begins the next one if a rank has begun to wait meanwhile.
    fn rest(&mut self, standings: &[RankStatus], now: Duration) -> Option<Step> {
        self.state = State::Idle;
        // A rank that does not answer may be in a wait that was reported already.
        if standings.iter().all(|standing| matches!(standing, RankStatus::Computing | RankStatus::Left)) {
            self.next = None;
        }
        self.is_wanted.then(|| self.begin(now))
    }
}

/// Returns the ranks of a finding's chain in ascending order.
fn members(finding: &Finding) -> Vec<u32> {
    let mut members: Vec<u32> = finding.chain.iter().map(|link| link.rank).collect();
    members.sort_unstable();
    members
}

/// Returns the standings of the second collection, where ranks that were not in the same wait count as free.
fn settle(first: &[Known], second: &[Known]) -> Vec<RankStatus> {
    let settle = |(first, second): (&Known, &Known)| match (first, second) {
        ((since, RankStatus::Waiting(before)), (same, RankStatus::Waiting(card))) => {
            if since == same && without_places(before) == without_places(card) {
                second.1.clone()
            } else {
                RankStatus::Unknown("moves on".to_string())
            }
        }
        (_, (_, RankStatus::Waiting(_))) => RankStatus::Unknown("has begun to wait".to_string()),
        _ => second.1.clone(),
    };
    first.iter().zip(second).map(settle).collect()
}

/// Returns a card as an answer to a request for waits alone, without counts that inquiries of waiting ranks
/// change.
fn without_places(card: &Card) -> Card {
    let mut card = Card { network: None, ..card.clone() };
    for wait in &mut card.waits {
        wait.function.clear();
        wait.place.clear();
    }
    card
}

fn report(standings: &[RankStatus], findings: &[Finding]) -> Step {
    let is_proved = findings.iter().any(|finding| finding.certainty == Certainty::Certain);
    let advice = "all waits: kill -USR1 on mpirun, or --hang-report FILE; TUTTI_HANG=off|SECONDS|abort";
    let lines = message::lines(findings, advice);
    Step::Report(Report { lines, json: json::report(standings, findings), is_proved })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_hang::{Kind, Mode, Need, Ranks, Wait};

    const AFTER: Duration = Duration::from_secs(5);

    fn waits(rank: u32, since_ns: u64, by: u32, is_free: bool) -> RankCard {
        let need = Need::new(Kind::Receive, Ranks::one(by), Mode::Any);
        let text = String::new;
        let wait = Wait {
            function: text(),
            place: text(),
            text: text(),
            mode: Mode::All,
            needs: vec![need],
            is_cut: false,
        };
        let card = Card { waits: vec![wait], has_other_threads: is_free, ..Card::default() };
        RankCard { rank, seen: Seen::Waiting(since_ns, card.encode(4000)) }
    }

    fn computes(rank: u32) -> RankCard {
        RankCard { rank, seen: Seen::Computing }
    }

    /// Runs an inquiry of two ranks with these two collections, and returns the lines of the report.
    fn inquire(inquest: &mut Inquest, collections: [&[RankCard]; 2], now: Duration) -> Option<Vec<String>> {
        let Some(Step::Collect(first)) = inquest.long_wait(now) else { panic!("no collection") };
        assert_eq!(first % 2, 0);
        assert_eq!(inquest.cards(first, collections[0], now), None);
        let at = inquest.deadline().filter(|_| matches!(inquest.state, State::Pausing(_)))?;
        let Some(Step::Collect(second)) = inquest.tick(at) else { panic!("no second collection") };
        assert_eq!(second, first + 1);
        match inquest.cards(second, collections[1], at) {
            Some(Step::Report(report)) => Some(report.lines),
            _ => None,
        }
    }

    #[test]
    fn a_deadlock_is_reported_once() {
        let both = [waits(0, 7, 1, false), waits(1, 8, 0, false)];
        let mut inquest = Inquest::new(2, AFTER).counting_from(u32::MAX);
        let lines = inquire(&mut inquest, [&both, &both], AFTER).unwrap();
        assert!(lines[0].starts_with("deadlock: ranks 0, 1 wait for each other"), "{lines:?}");
        assert_eq!(inquire(&mut inquest, [&both, &both], 4 * AFTER), None);
    }

    #[test]
    fn a_rank_that_has_moved_on_is_free() {
        let both = [waits(0, 7, 1, false), waits(1, 8, 0, false)];
        for other in [waits(1, 9, 0, false), computes(1), RankCard { rank: 1, seen: Seen::Ended }] {
            let later = [both[0].clone(), other.clone()];
            let lines = inquire(&mut Inquest::new(2, AFTER), [&both, &later], AFTER);
            // A rank that has ended releases nobody.
            assert_eq!(lines.is_some(), other.seen == Seen::Ended, "{lines:?}");
            assert_eq!(inquire(&mut Inquest::new(2, AFTER), [&[both[0].clone()], &both], AFTER), None);
        }
    }

    #[test]
    fn a_suspicion_is_reported_when_it_comes_again() {
        let both = [waits(0, 7, 1, true), waits(1, 8, 0, true)];
        let mut inquest = Inquest::new(2, AFTER);
        assert_eq!(inquire(&mut inquest, [&both, &both], AFTER), None);
        assert!(inquest.deadline().is_some_and(|at| at <= AFTER + 2 * PAUSE));
        let lines = inquire(&mut inquest, [&both, &both], 2 * AFTER).unwrap();
        assert!(lines[0].contains("unless another thread"), "{lines:?}");
    }

    #[test]
    fn ranks_that_compute_are_a_late_hint_and_only_once() {
        let mut inquest = Inquest::new(2, AFTER);
        let mut now = AFTER;
        let mut step = inquest.long_wait(now);
        let mut hints = Vec::new();
        for _ in 0..12 {
            let Some(Step::Collect(request)) = step else { panic!("no collection") };
            if let Some(Step::Report(report)) =
                inquest.cards(request, &[waits(0, 7, 1, false), computes(1)], now)
            {
                hints.push((now.as_secs(), report));
            }
            now = inquest.deadline().unwrap();
            step = inquest.tick(now);
        }
        assert_eq!(hints.len(), 1, "{hints:?}");
        let (seconds, report) = &hints[0];
        assert!(
            *seconds >= 65 && !report.is_proved && report.lines[0].starts_with("hint: rank 1"),
            "{report:?}"
        );
        // Nobody waits any more.
        let Some(Step::Collect(request)) = step else { panic!("no collection") };
        assert_eq!(
            (inquest.cards(request, &[computes(0), computes(1)], now), inquest.deadline()),
            (None, None)
        );
    }

    #[test]
    fn ranks_that_do_not_answer_are_asked_again() {
        let silent = |rank| RankCard { rank, seen: Seen::Unknown("does not say".to_string()) };
        let mut inquest = Inquest::new(2, AFTER);
        let Some(Step::Collect(request)) = inquest.long_wait(AFTER) else { panic!("no collection") };
        assert_eq!(inquest.cards(request, &[silent(0), silent(1)], AFTER), None);
        let at = inquest.deadline().unwrap();
        assert!(matches!(inquest.tick(at), Some(Step::Collect(_))));
    }

    #[test]
    fn a_job_that_is_stopped_gets_no_hint() {
        let stopped = RankCard { rank: 1, seen: Seen::Unknown("stopped".to_string()) };
        let mut inquest = Inquest::new(2, AFTER);
        let mut step = inquest.long_wait(AFTER);
        for _ in 0..20 {
            let Some(Step::Collect(request)) = step else { panic!("no collection") };
            let cards = [waits(0, 7, 1, false), stopped.clone()];
            assert_eq!(inquest.cards(request, &cards, inquest.next.unwrap()), None);
            step = inquest.tick(inquest.deadline().unwrap());
        }
    }
}
