//! Report as JSON: the findings, and the state of every rank.

use std::fmt::Write;

use crate::card::{Card, Message, Mode, Need, Wait};
use crate::finding::{Cause, Certainty, Finding};
use crate::graph::RankStatus;
use crate::ranks::Ranks;

/// Returns the whole report as JSON text with a newline at the end.
pub fn report(ranks: &[RankStatus], findings: &[Finding]) -> String {
    let findings: Vec<String> = findings.iter().map(finding).collect();
    let ranks: Vec<String> = (0..).zip(ranks).map(|(number, rank)| standing(number, rank)).collect();
    format!(
        "{{\n \"findings\": [{}],\n \"ranks\": [\n  {}\n ]\n}}\n",
        findings.join(", "),
        ranks.join(",\n  ")
    )
}

fn finding(finding: &Finding) -> String {
    let certainty = match finding.certainty {
        Certainty::Certain => "certain",
        Certainty::Likely => "likely",
        Certainty::Possible => "possible",
    };
    let (cause, culprits) = match &finding.cause {
        Cause::Deadlock => ("deadlock", finding.chain.iter().map(|link| link.rank).collect()),
        Cause::Left(left) => ("left", left.clone()),
        Cause::Computing(computing) => ("computing", computing.clone()),
    };
    let chain: Vec<String> = finding
        .chain
        .iter()
        .map(|link| {
            format!("{{\"rank\": {}, \"next\": {}, \"need\": {}}}", link.rank, link.next, need(&link.need))
        })
        .collect();
    let remarks: Vec<String> = finding.remarks.iter().map(|remark| text(remark)).collect();
    let others: Ranks = finding.others.iter().flat_map(|(ranks, _)| ranks.iter()).collect();
    format!(
        "{{\"certainty\": \"{certainty}\", \"cause\": \"{cause}\", \"ranks\": {}, \"chain\": [{}], \"remarks\": [{}], \
         \"others\": {}}}",
        set(&culprits),
        chain.join(", "),
        remarks.join(", "),
        set(&others)
    )
}

fn standing(number: u32, standing: &RankStatus) -> String {
    let rest = match standing {
        RankStatus::Computing => "\"state\": \"computing\"".to_string(),
        RankStatus::Unknown(why) => format!("\"state\": {}", text(why)),
        RankStatus::Left => "\"state\": \"left\"".to_string(),
        RankStatus::Waiting(card) => format!("\"state\": \"waiting\", {}", card_fields(card)),
    };
    format!("{{\"rank\": {number}, {rest}}}")
}

fn card_fields(card: &Card) -> String {
    let waits: Vec<String> = card.waits.iter().map(wait).collect();
    let arrived: Vec<String> = card.arrived.iter().map(message).collect();
    let called: Vec<String> =
        card.called.iter().map(|(context, number)| format!("\"{context}\": {number}")).collect();
    let network = card.network.map_or("null".to_string(), |(sent, received)| format!("[{sent}, {received}]"));
    format!(
        "\"network\": {network}, \"waits\": [{}], \"other_threads\": {}, \"transferring\": {}, \"arrived\": [{}], \"called\": {{{}}}",
        waits.join(", "),
        card.has_other_threads,
        card.is_transferring,
        arrived.join(", "),
        called.join(", ")
    )
}

fn wait(wait: &Wait) -> String {
    let needs: Vec<String> = wait.needs.iter().map(need).collect();
    format!(
        "{{\"function\": {}, \"place\": {}, \"text\": {}, \"mode\": {}, \"needs\": [{}]}}",
        text(&wait.function),
        text(&wait.place),
        text(&wait.text),
        mode(wait.mode),
        needs.join(", ")
    )
}

fn need(need: &Need) -> String {
    let tag = need.tag.map_or("null".to_string(), |tag| tag.to_string());
    format!(
        "{{\"kind\": \"{}\", \"object\": {}, \"operation\": {}, \"context\": {}, \"number\": {}, \"tag\": {tag}, \
         \"bytes\": {}, \"mode\": {}, \"by\": {}}}",
        format!("{:?}", need.kind).to_lowercase(),
        text(&need.object),
        text(&need.operation),
        need.context,
        need.number,
        need.bytes,
        mode(need.mode),
        set(&need.by)
    )
}

fn message(message: &Message) -> String {
    format!("{{\"peer\": {}, \"object\": {}, \"tag\": {}}}", message.peer, text(&message.object), message.tag)
}

fn mode(mode: Mode) -> &'static str {
    if mode == Mode::All { "\"all\"" } else { "\"any\"" }
}

/// Returns a set of ranks as a list of ranges, each a list of its first and last rank.
fn set(ranks: &Ranks) -> String {
    let ranges: Vec<String> =
        ranks.ranges().iter().map(|(first, last)| format!("[{first}, {last}]")).collect();
    format!("[{}]", ranges.join(", "))
}

/// Returns a text in quotation marks, with all special characters escaped.
fn text(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' => {
                // Writing to a text never fails.
                let _ = write!(out, "\\u{:04x}", letter as u32);
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}
