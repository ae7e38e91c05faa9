//! Compares shortened texts with an exhaustive search over all subsets of lines.

use search::shorten::{shorten, shorten_many};

/// Examines all subsets of lines, and returns those from which no single line can be removed, as bit sets.
fn minima(count: u32, still: &dyn Fn(u32) -> bool) -> Vec<u32> {
    let all = 0..1_u32 << count;
    let minimal =
        |set: &u32| still(*set) && (0..count).all(|n| set >> n & 1 == 0 || !still(set & !(1 << n)));
    all.filter(minimal).collect()
}

fn draws(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}

#[test]
fn result_is_minimal() {
    let mut draw = draws(3);
    for _ in 0..200 {
        let count = 3 + draw(8) as u32;
        // The predicate is true if all lines of at least one group are present, and if for each line the line that it
        // needs is present too.
        let group = |draw: &mut dyn FnMut(u64) -> u64| {
            (0..=draw(3)).fold(0, |set, _| set | 1 << draw(count.into()))
        };
        let groups: Vec<u32> = (0..=draw(2)).map(|_| group(&mut draw)).collect();
        let needs: Vec<(u32, u32)> =
            (0..draw(3)).map(|_| (1 << draw(count.into()), 1 << draw(count.into()))).collect();
        let still = |set: u32| {
            groups.iter().any(|group| set & group == *group)
                && needs.iter().all(|(one, other)| set & one == 0 || set & other != 0)
        };
        let text: String = (0..count).map(|n| format!("{n}\n")).collect();
        let set_of =
            |text: &str| text.lines().fold(0, |set, line| set | 1 << line.parse::<u32>().unwrap());
        if !still(set_of(&text)) {
            continue;
        }
        let shortened = shorten(&text, &mut |text| Some(still(set_of(text))));
        assert!(shortened.complete);
        let left = set_of(&shortened.apply_to(&text));
        let right = minima(count, &still);
        assert!(right.contains(&left), "{groups:?} {needs:?}: {left:b} is not in {right:?}");
    }
}

#[test]
fn finds_three_scattered_lines_among_two_hundred() {
    let text: String = (0..200).map(|n| format!("line {n};\n")).collect();
    let wanted = ["line 17;", "line 101;", "line 187;"];
    let mut tries = 0;
    let shortened = shorten(&text, &mut |text| {
        tries += 1;
        Some(wanted.iter().all(|line| text.lines().any(|other| other == *line)))
    });
    assert_eq!(shortened.apply_to(&text), "line 17;\nline 101;\nline 187;\n");
    assert_eq!((shortened.tries, shortened.complete), (tries, true));
    assert!(tries < 150, "{tries}");
}

/// The predicate needs the function as a whole or not at all, so only the whole function can be removed.
#[test]
fn removes_a_block_as_a_whole() {
    let balanced = |text: &str| {
        let count = |c: char| text.matches(c).count();
        count('{') == count('}') && count('{') * 2 + 1 == text.lines().count()
    };
    let cpp = "f {\n}\nwanted\ng {\n}\nh {\n}\n";
    let shortened = shorten(cpp, &mut |text| Some(text.contains("wanted") && balanced(text)));
    assert_eq!(shortened.apply_to(cpp), "wanted\n");
    let python = "def f():\n    one\n\n    two\nwanted\nif x:\n    three\n";
    let heads = |text: &str| {
        let deep = text.lines().filter(|line| line.starts_with(' ')).count();
        [("def", 2), ("if", 1)].iter().all(|(head, n)| !text.contains(head) || deep >= *n)
            && (deep == 0 || text.contains("def") || text.contains("if"))
            && (!text.contains("two") || text.contains("one"))
    };
    let shortened = shorten(python, &mut |text| Some(text.contains("wanted") && heads(text)));
    assert_eq!(shortened.apply_to(python), "wanted\n");
}

#[test]
fn ended_search_returns_the_best_text_so_far() {
    let text: String = (0..64).map(|n| format!("{n}\n")).collect();
    let mut tries = 0;
    let shortened = shorten(&text, &mut |text| {
        tries += 1;
        (tries < 4).then(|| text.lines().any(|line| line == "5"))
    });
    assert!(!shortened.complete);
    assert!(shortened.lines.contains(&5) && shortened.lines.len() < 64, "{:?}", shortened.lines);
    assert_eq!(shorten("", &mut |_| Some(true)).lines, [0; 0]);
}

#[test]
fn the_result_does_not_depend_on_the_number_of_texts_at_once() {
    let text: String = (0..40).map(|n| format!("{}{n}\n", " ".repeat(n % 5))).collect();
    for wanted in [vec![0, 39], vec![7, 8, 9, 30], vec![], vec![13]] {
        let has = |text: &str, n: &usize| text.lines().any(|line| line.trim() == n.to_string());
        let is_good = |text: &str| wanted.iter().all(|n| has(text, n));
        let one = shorten(&text, &mut |text| Some(is_good(text)));
        for width in [2, 3, 7] {
            let many = shorten_many(&text, width, &[], &mut |texts| {
                assert!(texts.len() <= width + 1, "{}", texts.len());
                Some(texts.iter().map(|text| is_good(text)).collect())
            });
            assert_eq!(
                (many.lines, many.complete),
                (one.lines.clone(), true),
                "{wanted:?} {width}"
            );
        }
    }
}

/// A group takes one try, however many lines it has.
#[test]
fn tries_each_group_first() {
    let text: String = (0..8).map(|n| format!("{n}\n")).collect();
    let groups = [vec![1, 3, 5], vec![0, 2], vec![]];
    let mut tried = Vec::new();
    let shortened = shorten_many(&text, 2, &groups, &mut |texts| {
        tried.extend(texts.iter().cloned());
        (tried.len() < 3).then(|| texts.iter().map(|text| text.contains('0')).collect())
    });
    assert_eq!(tried[..2], ["0\n2\n4\n6\n7\n", "4\n6\n7\n"]);
    assert_eq!((shortened.lines, shortened.complete), (vec![0, 2, 4, 6, 7], false));
}
