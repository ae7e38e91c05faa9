//! Measures the cost of starting a process with and without supervision. Both are measured in one run, so that the load
//! of the machine affects both.

use std::hint::black_box;
use std::process::{Command, Stdio};

use criterion::{Criterion, criterion_group, criterion_main};
use supervise::{Cancel, ChildEnd, Limits};

fn spawn(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("spawn");
    group.bench_function("plain", |bencher| {
        bencher.iter(|| {
            let status = Command::new("/bin/true").status().expect("/bin/true starts");
            assert!(status.success());
        });
    });
    group.bench_function("plain, piped", |bencher| {
        bencher.iter(|| {
            let output = Command::new("/bin/true").stdin(Stdio::piped()).output();
            assert!(output.expect("/bin/true starts").status.success());
        });
    });
    let cancel = Cancel::new().expect("an eventfd");
    let limits = Limits::default();
    group.bench_function("supervised", |bencher| {
        bencher.iter(|| {
            let command = Command::new("/bin/true");
            let seen = supervise::run(command, b"{}", &limits, &cancel, &mut |line| {
                black_box(line);
            });
            assert!(matches!(seen.ended, ChildEnd::Exited(0)), "{:?}", seen.ended);
        });
    });
    group.finish();
}

criterion_group!(benches, spawn);
criterion_main!(benches);
