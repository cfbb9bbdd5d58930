//! Tests of input and output: environment, arguments, output in whole lines, input to rank 0.

use std::io::{Read, Write};

use crate::common::{Done, run, start};

fn check(arguments: &[&str], lines: &[&str]) {
    let Done { status, out, err } = run(arguments);
    assert_eq!((status, &err[..]), (0, ""), "{arguments:?}");
    let mut got: Vec<&str> = out.lines().collect();
    got.sort_unstable();
    assert_eq!(got, lines, "{arguments:?}");
}

#[test]
fn ranks_know_who_they_are() {
    check(
        &["-n", "2", "{fake}", "header", ":", "-n", "1", "{fake}", "header"],
        &["0 of 3 on host 0 of 1 app 0", "1 of 3 on host 0 of 1 app 0", "2 of 3 on host 0 of 1 app 1"],
    );
    check(
        &["-n", "1", "-wdir", "/", "-env", "A", "x y", "-x", "B=2", "sh", "-c", "echo $PWD $A $B $0", "word"],
        &["/ x y 2 word"],
    );
}

#[test]
fn output_is_tagged_when_asked() {
    check(&["-n", "2", "--tag-output", "echo", "hi"], &["[0]<stdout>: hi", "[1]<stdout>: hi"]);
    check(&["-n", "2", "-l", "printf", "a\\nb"], &["[0] a", "[0] b", "[1] a", "[1] b"]);
}

#[test]
fn lines_of_many_ranks_stay_whole() {
    let Done { status, out, .. } = run(&["-n", "4", "{fake}", "flood:2"]);
    assert_eq!(status, 0);
    assert_eq!(out.lines().count(), 4 * 2 * 10_486);
    assert!(out.lines().all(|line| line.len() == 99));
}

#[test]
fn a_slow_reader_stops_nobody_for_good() {
    let mut run = start(&["-n", "2", "{fake}", "flood:3"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut first = vec![0; 1000];
    run.child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let Done { status, out, .. } = run.finish();
    assert_eq!((status, out.len()), (0, 2 * 3 * 10_486 * 100 - 1000));
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let mut run = start(&["-n", "2", "sh", "-c", "yes"]);
    let mut first = [0; 10];
    run.child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let Done { status, err, .. } = run.finish();
    assert_eq!((status, &err[..]), (141, ""));
}

#[test]
fn input_goes_to_rank_0() {
    let mut run = start(&["-n", "3", "sh", "-c", "cat; echo end"]);
    run.child.stdin.as_mut().unwrap().write_all(b"one\ntwo\n").unwrap();
    let Done { out, .. } = run.finish();
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["end", "end", "end", "one", "two"]);
}

#[test]
fn a_prompt_is_seen_before_its_answer() {
    let mut run = start(&[
        "-n",
        "2",
        "sh",
        "-c",
        "test $TUTTI_JOB_RANK = 1 || { printf 'name? '; read name; echo hello $name; }",
    ]);
    let mut prompt = [0; 6];
    run.child.stdout.as_mut().unwrap().read_exact(&mut prompt).unwrap();
    assert_eq!(&prompt, b"name? ");
    run.child.stdin.as_mut().unwrap().write_all(b"you\n").unwrap();
    assert_eq!(run.finish().out, "hello you\n");
}

#[test]
fn ranks_are_bound_as_reported() {
    let Done { status, out, err } = run(&[
        "-n",
        "2",
        "--bind-to",
        "core",
        "--report-bindings",
        "sh",
        "-c",
        "grep Cpus_allowed_list /proc/self/status",
    ]);
    assert_eq!(status, 0);
    for (line, report) in out.lines().zip(err.lines()) {
        let list = line.split_whitespace().last().unwrap();
        assert!(err.contains(&format!("processors {list}\n")), "{line} {report}");
    }
    let Done { err, .. } = run(&["-n", "1", "--bind-to", "none", "--report-bindings", "true"]);
    assert_eq!(err, "mpirun: rank 0 is not bound\n");
}

#[test]
fn output_that_cannot_be_written_is_told() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(crate::common::MPIRUN);
    let done = command.args(["-n", "2", "echo", "hi"]).stdout(full).output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(err.contains("mpirun: output cannot be written: No space left"), "{err}");
}

#[test]
fn many_ranks_need_no_higher_limit() {
    let script = format!("ulimit -Sn 256; exec {} -n 150 sh -c 'ulimit -Sn'", crate::common::MPIRUN);
    let done = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "256\n".repeat(150));
}
