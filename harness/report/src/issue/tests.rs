use std::path::Path;

use device::Fault;
use judge::{End, Kind, Known, Location};
use plan::Phase;

use super::*;
use crate::{
    evidence::{
        BisectEvidence, BuildRate, ExportEvidence, Factor, FactorKind, FactorVerdict,
        InvalidVariant, MinimiseEvidence, Mitigations, NeededElement, NotTried, OtherFailure,
        PassingRuns, Rate, ReplacementFailure, Setting, SkippedBuild,
    },
    fixture::{failed, on_gpu, with_fault},
};

const PROGRAM: &str = "#include <hip/hip_runtime.h>\nint main() { return 0; }\n";

/// Returns findings in which every optional field is set, for an injected fault on the emulated device.
pub(super) fn planted() -> Findings {
    let record = with_fault(Fault::CopyZero, failed("copies/small-sizes[bytes=2,host=pageable]"));
    let on = Setting::from_record(&record);
    let rate = |failed, runs| Rate { failed, runs };
    let factor = |name: &str, value: &str, kind, failed, verdict| Factor {
        name: name.to_owned(),
        kind,
        value: value.to_owned(),
        meaning: "What it changes.".to_owned(),
        since: None,
        rate: rate(failed, 7),
        others: match &verdict {
            FactorVerdict::ChangedSignature { to } | FactorVerdict::Wrong { to } => {
                vec![OtherFailure { signature: to.clone(), count: 7 }]
            }
            _ => Vec::new(),
        },
        verdict,
        component: "copy engine".to_owned(),
    };
    Findings {
        packages: vec![("libamdhip64-7".to_owned(), "7.2.4-1".to_owned())],
        planted: vec!["copy.zero,probability=0.5,seed=3".to_owned()],
        about: Some("On gfx11 small pageable copies\nwere lost".to_owned()),
        unfinished: None,
        open_call: None,
        refused_call: None,
        sources: vec!["Source: HIP runtime API reference (hipMemcpy)".to_owned()],
        rate: rate(5, 10),
        others: vec![OtherFailure { signature: "hang:hipMemcpy".to_owned(), count: 1 }],
        program: Some(Program {
            file: "repro.cpp".to_owned(),
            language: "cpp",
            text: PROGRAM.to_owned(),
            exported: Some(ExportEvidence {
                trial: record.trial.clone(),
                form: "hiprtc".to_owned(),
                path: "repro.cpp".to_owned(),
                build: "g++ -std=c++17 repro.cpp -lamdhip64 -lhiprtc -o repro".to_owned(),
                run: "./repro".to_owned(),
                verified: Some(rate(5, 5)),
                on: Some(on.clone()),
                ended: Some("FAIL: buffer back: byte 0 is 00; expected e9".to_owned()),
                passes: Some(PassingRuns {
                    on: on.clone(),
                    rate: rate(0, 3),
                    otherwise: vec![
                        "hipStreamQuery: hipSuccess there, hipErrorNotReady here".to_owned(),
                    ],
                }),
                traces_equal: Some(true),
                tries: Some(60),
                cut_short: false,
            }),
            own: None,
        }),
        on_cpu: None,
        case: "title: x\n".to_owned(),
        controls: vec![Control {
            what: "host=pinned instead of host=pageable".to_owned(),
            release: None,
            rate: rate(0, 5),
            signature: None,
            others: Vec::new(),
            likeness: None,
            again: "rocrepro run x".to_owned(),
        }],
        not_judged: vec![UnjudgedRelease {
            release: "5.2.3".to_owned(),
            why: "the device | has no code".to_owned(),
        }],
        shortened: None,
        minimised: Some(MinimiseEvidence {
            trial: record.trial.clone(),
            digest: String::new(),
            signature: record.outcome.signature.clone(),
            fault: Some("copy.zero".to_owned()),
            on: on.clone(),
            calls_before: 40,
            calls_after: 3,
            runs: 55,
            rate: rate(5, 10),
            elements: vec![
                NeededElement {
                    what: "copy to dst".to_owned(),
                    line: 7,
                    with: rate(5, 10),
                    without: rate(0, 10),
                    instead: vec![
                        ReplacementFailure {
                            signature: "api-error:hipMalloc:hipErrorInvalidValue".to_owned(),
                            count: 6,
                            own: Some(InvalidVariant::Answer),
                        },
                        ReplacementFailure {
                            signature: "crash:hipFree".to_owned(),
                            count: 2,
                            own: None,
                        },
                    ],
                    impossible: None,
                },
                NeededElement {
                    what: "buffer src".to_owned(),
                    line: 3,
                    with: rate(5, 10),
                    without: rate(0, 0),
                    instead: Vec::new(),
                    impossible: Some("`src` is used".to_owned()),
                },
            ],
            others: vec![OtherFailure { signature: "crash:hipFree".to_owned(), count: 2 }],
            yaml: "title: x\n".to_owned(),
            passes: None,
        }),
        mitigations: Some(Mitigations {
            trial: record.trial.clone(),
            digest: String::new(),
            signature: record.outcome.signature.clone(),
            on: on.clone(),
            base: rate(5, 10),
            base_others: vec![OtherFailure { signature: "hang:hipMemcpy".to_owned(), count: 2 }],
            runs: 30,
            factors: vec![
                factor("HSA_ENABLE_SDMA", "0", FactorKind::Env, 0, FactorVerdict::Helped),
                factor("HIP_LAUNCH_BLOCKING", "1", FactorKind::Env, 3, FactorVerdict::NoEffect),
                factor(
                    "pin the host buffer",
                    "",
                    FactorKind::Rewrite,
                    0,
                    FactorVerdict::ChangedSignature { to: "hang:hipMemcpy".to_owned() },
                ),
                factor(
                    "one stream",
                    "",
                    FactorKind::Rewrite,
                    0,
                    FactorVerdict::Wrong { to: "api-error:hipStreamQuery:hipSuccess".to_owned() },
                ),
            ],
            minimal_set: Vec::new(),
            points_to: vec!["copy engine".to_owned()],
            not_tried: vec![NotTried {
                name: "PYTORCH_NO_HIP_MEMORY_CACHING".to_owned(),
                why: "PyTorch takes no part".to_owned(),
            }],
        }),
        bisected: Some(BisectEvidence {
            trial: record.trial.clone(),
            axis: "debian".to_owned(),
            band: None,
            last_good: Some("6.4.3".to_owned()),
            first_bad: Some("7.2.4".to_owned()),
            rates: vec![
                BuildRate { version: "6.4.3".to_owned(), rate: rate(0, 30) },
                BuildRate { version: "7.2.4".to_owned(), rate: rate(5, 10) },
            ],
            notes: vec!["the confidence is of the change, not of the build".to_owned()],
            fix: false,
            worse: false,
            confidence: Some(0.995),
            signature: record.outcome.signature.clone(),
            on,
            components: Vec::new(),
            crossed: Vec::new(),
            skipped: vec![SkippedBuild {
                version: "5.2.3".to_owned(),
                why: "does not start".to_owned(),
            }],
            rerun: vec!["rocrepro run x --rocm debian:6.4.3".to_owned()],
            within: None,
        }),
        finer: None,
        environment: super::environment::example(),
        variables: Vec::new(),
        logs: vec![
            Log { title: "AMD_LOG_LEVEL=4".to_owned(), text: "a line of the log\n".repeat(8) },
            Log {
                title: "hipblaslt-bench".to_owned(),
                text: "hipblaslt-bench -m 1 `x`".to_owned(),
            },
        ],
        kernel_log: vec!["[ 1.000000] amdgpu: page fault".to_owned()],
        libraries: Vec::new(),
        known_bugs: vec![KnownBug {
            case: "capture/stream".to_owned(),
            upstream: Some("ROCm/ROCm#4614".to_owned()),
            about: "The stream stays invalidated.".to_owned(),
            calls: vec!["hipStreamEndCapture(0x1) -> hipErrorStreamCaptureInvalidated".to_owned()],
        }],
        duplicates: vec![Duplicate {
            case: "copies/other".to_owned(),
            known: Known {
                gfx: vec!["gfx1100".to_owned()],
                rocm: ">=7.0".parse().expect("a range"),
                card: None,
                driver: None,
                signature: "wrong-data:*".to_owned(),
                upstream: Some("ROCm/rocm-systems#11617".to_owned()),
                about: None,
                difference: None,
            },
            upstream: vec!["ROCm/rocm-systems#11617".to_owned()],
        }],
        mistake: None,
        anyway: false,
        is_of_the_user: false,
        launches_own_kernels: false,
        again: "rocrepro report x".to_owned(),
        record,
    }
}

/// A finer search is shown only if it refines the reported result. A search for a fix has other headings.
#[test]
fn shows_the_finer_search_of_the_reported_answer() {
    let mut findings = planted();
    let nights = findings.bisected.clone().expect("a bisection");
    let ends = |good: &str, bad: &str| Some((good.to_owned(), bad.to_owned()));
    let finer = |within| BisectEvidence {
        last_good: Some("361a3e7".to_owned()),
        first_bad: Some("9f00d11".to_owned()),
        within,
        ..nights.clone()
    };
    assert!(finer(ends("6.4.3", "7.2.4")).refines(&nights));
    for other in [None, ends("6.4.3", "7.2.3"), ends("5.7.1", "7.2.4")] {
        assert!(!finer(other.clone()).refines(&nights), "{other:?}");
    }
    findings.finer = Some(finer(ends("6.4.3", "7.2.4")));
    findings.bisected.iter_mut().chain(&mut findings.finer).for_each(|found| found.fix = true);
    let text = super::since::versions(&findings).expect("a section");
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}: {text}"));
    assert!(at("Until when") < at("First good: **6.4.3**. Last bad: **7.2.4**."));
    assert!(at("#### Between these two") < at("First good: **361a3e7**. Last bad: **9f00d11**."));
}

/// If a build before the change has failed in some runs, it must not be called good.
#[test]
fn failures_before_the_change_make_it_worse() {
    let mut findings = planted();
    let found = findings.bisected.as_mut().expect("a bisection");
    (found.worse, found.rates[0].rate.failed) = (true, 2);
    let plain = crate::bisected(found, "it gets worse", "40 runs");
    assert!(plain.contains("fails less  6.4.3   2 of 30 runs failed"), "{plain}");
    assert!(!plain.contains("last good"), "{plain}");
    let text = super::since::versions(&findings).expect("a section");
    assert!(
        text.contains(
            "The failure becomes more frequent between **6.4.3** and **7.2.4**; builds before"
        ),
        "{text}"
    );
    assert!(!text.contains("Last good"), "{text}");
}

/// Returns findings for a crash on a GPU, in which only the required fields are set.
fn real() -> Findings {
    let mut record = on_gpu(failed("graphs/long-chain[nodes=30000]"));
    record.title = "A chain of many kernel nodes instantiates".to_owned();
    record.outcome.kind = Kind::Crash;
    record.outcome.signature = "crash:hipGraphInstantiate".to_owned();
    record.outcome.summary =
        "the process was killed by SIGSEGV in hipGraphInstantiate (line 21)".to_owned();
    record.outcome.details = vec!["Last line on standard error: stack overflow".to_owned()];
    record.outcome.at = Location {
        phase: Some(Phase::Body),
        line: Some(21),
        api: Some("hipGraphInstantiate".to_owned()),
        ..Location::default()
    };
    record.exit = End::Signalled { signal: 11 };
    Findings {
        record,
        planted: Vec::new(),
        about: None,
        rate: Rate { failed: 5, runs: 5 },
        others: Vec::new(),
        program: None,
        controls: Vec::new(),
        minimised: None,
        mitigations: None,
        bisected: None,
        finer: None,
        variables: vec![("HSA_XNACK".to_owned(), "1".to_owned())],
        logs: Vec::new(),
        kernel_log: Vec::new(),
        duplicates: Vec::new(),
        known_bugs: Vec::new(),
        ..planted()
    }
}

/// A failure that is known becomes a comment for its issue, unless the user asks for an issue.
#[test]
fn known_failure_is_a_comment() {
    let mut findings = real();
    findings.known_bugs = planted().known_bugs;
    let known = "ROCm/ROCm#4614".to_owned();
    let issue = Issue::new(&findings, None);
    assert_eq!(issue.filing, Filing::Comment { issue: known.clone() });
    let page = issue.page();
    assert!(page.contains("<!-- comment for: ROCm/ROCm#4614 -->"), "{page}");
    assert!(!page.contains("###") && !page.contains("repository:"), "{page}");
    assert!(
        page.contains("* **Probably known as** https://github.com/ROCm/ROCm/issues/4614"),
        "{page}"
    );
    let open = summary(Path::new("out"), &findings, &issue, true);
    assert!(open.contains("as a comment") && !open.contains("issues/new"), "{open}");
    assert_eq!(Issue::new(&findings, Some(Form::Rocm)).filing, Filing::New);
    findings.anyway = true;
    assert_eq!(Issue::new(&findings, None).filing, Filing::New);
    let injected = Findings { known_bugs: findings.known_bugs, ..planted() };
    assert_eq!(Issue::new(&injected, None).filing, Filing::New);
}

#[test]
fn failure_that_the_cpu_shows_too_is_a_draft() {
    let with = |fails_alike, status| {
        let end = judge::End::Exited(status);
        let on_cpu = Some(PrintedProgramRun::Ran { fails_alike, end, last: "`got` 0".to_owned() });
        let issue = Issue::new(&Findings { on_cpu, ..real() }, None);
        (issue.filing.clone(), issue.page())
    };
    let (filing, page) = with(true, 1);
    assert_eq!(filing, Filing::Draft);
    assert!(page.contains("**This is not an issue of ROCm: "), "{page}");
    assert!(page.contains("* **On the CPU** it fails in the same way "), "{page}");
    // The CPU lacks some operations, and a program may race only on the GPU.
    for (status, words) in [(1, "it fails in another way"), (0, "it passes")] {
        let (filing, page) = with(false, status);
        assert_eq!(filing, Filing::New, "{status}");
        assert!(page.contains(&format!("* **On the CPU** {words} ")), "{page}");
        assert!(!page.contains("not an issue"), "{page}");
    }
}

#[test]
fn injected_fault_in_every_form() {
    for form in Form::ALL {
        let issue = Issue::new(&planted(), Some(form));
        let text = format!("{}\n{}\n\n{}", issue.repository, issue.title, issue.markdown());
        insta::assert_snapshot!(format!("planted-{form}"), text);
    }
}

#[test]
fn crash_on_a_gpu() {
    let issue = Issue::new(&real(), None);
    let text = format!("{}\n{}\n\n{}", issue.repository, issue.title, issue.markdown());
    insta::assert_snapshot!("real", text);
}

/// The failure rate of the exported program is compared with that of the trial.
#[test]
fn program_rate_is_compared_with_the_trial_rate() {
    let said = |(failed, runs): (u32, u32), reported: (u32, u32), cut_short: bool| {
        let mut findings = planted();
        findings.rate = Rate { failed: reported.0, runs: reported.1 };
        let program = findings.program.as_mut().expect("a program");
        let exported = program.exported.as_mut().expect("verified");
        exported.verified = Some(Rate { failed, runs });
        (exported.tries, exported.cut_short) = (Some(900), cut_short);
        write::steps(&findings)
    };
    let every_time = said((3, 3), (5, 5), false);
    assert!(!every_time.contains("rate is") && !every_time.contains("shortest"), "{every_time}");
    let same = said((4, 9), (10, 20), false);
    assert!(
        same.contains(
            "and that of its case is 10/20 (95 % interval 27 % to 73 %): these runs do not show a difference."
        ),
        "{same}"
    );
    assert!(same.contains("failed as described in 4 of 9 fresh"), "{same}");
    let rarer = said((3, 60), (20, 20), false);
    assert!(rarer.contains("**It fails less often than its case**: its rate is 3/60"), "{rarer}");
    let decided = said((20, 20), (12, 20), false);
    assert!(decided.contains("It fails more often than its case"), "{decided}");
    let never = said((0, 60), (20, 20), false);
    assert!(never.contains("run 60 times and did not show this failure"), "{never}");
    let oftener = said((20, 20), (3, 60), true);
    assert!(oftener.contains("It fails more often than its case: its rate is 20/20"), "{oftener}");
    assert!(oftener.contains("the search was stopped after 900 runs."), "{oftener}");
}

#[test]
fn warnings_come_before_the_problem() {
    for form in Form::ALL {
        let text = Issue::new(&planted(), Some(form)).markdown();
        let notice = text.find("injected on purpose").expect("a notice");
        let emulated = text.find("Please confirm on hardware").expect("a notice");
        let problem = text.find("2 of 2 bytes wrong").expect("the problem");
        assert!(notice < emulated && emulated < problem, "{form}");
    }
    let text = Issue::new(&real(), None).markdown();
    assert!(!text.contains("emulated") && !text.contains("injected"));
}

/// Malicious text that the test appends to all strings from outside rocrepro.
const HOSTILE: &str = "<img src=x onerror=alert(1)> @everyone ` [a](http://evil/) ![i](http://evil/)\n# head | cell <!-- </details>";

/// Appends malicious text to every string in the evidence.
fn with_hostile_text<T: serde::Serialize + serde::de::DeserializeOwned>(
    evidence: &T,
    texts: &[String],
) -> T {
    fn append(value: &mut serde_json::Value, texts: &[String]) {
        match value {
            // Strings that are names of enum variants must not change.
            serde_json::Value::String(text) if !texts.contains(text) => text.push_str(HOSTILE),
            serde_json::Value::Array(all) => all.iter_mut().for_each(|v| append(v, texts)),
            serde_json::Value::Object(all) => all.values_mut().for_each(|v| append(v, texts)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(evidence).expect("evidence is data");
    append(&mut value, texts);
    serde_json::from_value(value).expect("texts stay texts")
}

/// An independent Markdown parser checks that no text from outside rocrepro becomes markup.
#[test]
fn foreign_texts_are_escaped_everywhere() {
    use pulldown_cmark::{Event, Options, Parser, Tag};

    let mut findings = planted();
    let kinds =
        ["env", "rewrite", "limit", "helped", "no-effect", "undecided", "gfx1151", "answer"];
    let kinds: Vec<String> = kinds.map(str::to_owned).to_vec();
    findings.minimised = findings.minimised.map(|found| with_hostile_text(&found, &kinds));
    findings.mitigations = findings.mitigations.map(|found| with_hostile_text(&found, &kinds));
    findings.bisected = findings.bisected.map(|mut found| {
        found.components.push(crate::evidence::Component {
            name: "clr".to_owned(),
            good: "a".to_owned(),
            bad: "b".to_owned(),
            compare_url: Some("https://x".to_owned()),
        });
        with_hostile_text(&found, &kinds)
    });
    let record = &mut findings.record;
    for text in [
        &mut record.title,
        &mut record.outcome.summary,
        &mut record.outcome.signature,
        &mut record.device.name,
        &mut record.stack.spec,
        &mut findings.again,
        &mut findings.controls[0].what,
        &mut findings.others[0].signature,
        &mut findings.planted[0],
        &mut findings.packages[0].0,
        &mut findings.duplicates[0].case,
        &mut findings.logs[0].text,
    ] {
        text.push_str(HOSTILE);
    }
    findings.duplicates[0].known.signature.push_str(HOSTILE);
    findings.about = Some(HOSTILE.to_owned());
    findings.variables.push(("HSA_XNACK".to_owned(), HOSTILE.to_owned()));
    for form in Form::ALL {
        let text = Issue::new(&findings, Some(form)).markdown();
        let mut in_code = false;
        let parser = Parser::new_ext(&text, Options::ENABLE_TABLES).into_offset_iter();
        for (event, range) in parser {
            let place = &text[range.clone()];
            match event {
                Event::Start(Tag::CodeBlock(_)) => in_code = true,
                Event::End(pulldown_cmark::TagEnd::CodeBlock) => in_code = false,
                Event::Html(html) | Event::InlineHtml(html) => {
                    let at = text[..range.start].len().saturating_sub(200);
                    assert!(
                        !html.contains("img") && !html.contains("<!--"),
                        "{form}: {}",
                        &text[at..range.end]
                    );
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    assert!(!dest_url.contains("evil"), "{form}: {place}");
                }
                Event::Start(Tag::Heading { .. }) => {
                    assert!(!place.starts_with("# head"), "{form}: {place}");
                }
                Event::Text(_) if !in_code => {
                    assert!(!place.contains("@everyone"), "{form}: {place}");
                }
                _ => {}
            }
        }
        assert!(!in_code, "{form}: a fence is open at the end");
    }
}

#[test]
fn link_respects_the_length_limit() {
    let mut findings = planted();
    for (program, log, details) in
        [(0, 0, 0), (4_000, 40_000, 0), (90_000, 1_000_000, 0), (0, 0, 90_000)]
    {
        if let Some(p) = &mut findings.program {
            p.text = "x é\n".repeat(program / 5);
        }
        findings.logs[0].text = "line\n".repeat(log / 5);
        findings.record.outcome.details = vec!["détail ".repeat(details / 8)];
        for form in Form::ALL {
            let issue = Issue::new(&findings, Some(form));
            let link = issue.link();
            assert!(link.url.len() <= LIMIT, "{form}: {}", link.url.len());
            assert!(link.url.starts_with("https://github.com/"), "{form}");
            assert!(link.url.is_ascii(), "{form}");
        }
    }
}

#[test]
fn logs_are_left_out_before_the_program() {
    let mut findings = planted();
    findings.logs[0].text = "line\n".repeat(10_000);
    let link = Issue::new(&findings, Some(Form::Rocm)).link();
    assert_eq!(link.cut.first().map(String::as_str), Some("AMD_LOG_LEVEL=4"));
    assert!(!link.cut.contains(&"repro.cpp".to_owned()), "{:?}", link.cut);
    assert!(link.url.contains("Not+included+in+this+URL"));
}

#[test]
fn forms_are_found_by_name() {
    for form in Form::ALL {
        assert_eq!(form.name().parse(), Ok(form));
    }
    assert!("rocblas".parse::<Form>().is_err_and(|e| e.contains("rocm-libraries")));
}

#[test]
fn nothing_of_a_given_value_is_published() {
    let values =
        ["zq1x|zq1x", "zq1x`zq1x", "zq1x  zq1x", "zq1x --launcher ssh zq1x", "<zq1x> @zq1x \\"];
    for (value, form) in values.iter().flat_map(|value| Form::ALL.map(|form| (value, form))) {
        let mut findings = planted();
        let command = format!("rocrepro run a --env {}", shell::quote(&format!("K={value}")));
        findings.variables = vec![("K".to_owned(), (*value).to_owned())];
        findings.about = Some(format!("with {value} in it"));
        findings.record.title = format!("Title {value}");
        findings.record.outcome.summary = format!("got `{value}`");
        findings.record.outcome.signature = format!("wrong-data:{value}:zero");
        findings.record.again.clone_from(&command);
        findings.again = command;
        let who = Identity { values: vec![(*value).to_owned()], ..Identity::default() };
        let issue = Issue::new(&findings, Some(form)).published(&who, None);
        let page = issue.markdown();
        assert!(!page.contains("zq1x") && !issue.title.contains("zq1x"), "{value}: {page}");
    }
}
