//! Measures the redaction of long lines, each of which repeats one short text. The time per byte must not grow with the
//! length of the line, because a program may print a line of any length.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use report::issue::{Identity, redact};

fn long_lines(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("redact");
    group.sample_size(10);
    let identity = Identity { host: "gpu-box".to_owned(), ..Identity::default() };
    for part in
        ["host=pinned ", "password=x,", "//a@", "/home/", "a@b ", "token:[", "<user ", "https://"]
    {
        for repeats in [1_000, 10_000] {
            let line = part.repeat(repeats);
            group.throughput(Throughput::Bytes(line.len() as u64));
            group.bench_with_input(BenchmarkId::new(part, repeats), &line, |bencher, line| {
                bencher.iter(|| redact(line, &identity));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, long_lines);
criterion_main!(benches);
