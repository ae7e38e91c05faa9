//! Generates statements of random kernels.

use super::*;

pub(super) struct Writer {
    pub(super) draw: Draw,
    pub(super) variables: Vec<Variable>,
    pub(super) size: Size,
    pub(super) phase: usize,
    /// Number of statements that may still be added to the phase.
    pub(super) left: usize,
    /// Kind of the atomics on shared words in this phase; empty if the phase has none.
    pub(super) atomic: &'static str,
    /// True while an expression is being drawn that has the same value in all work-items. GPUs compute such an
    /// expression once per wave.
    pub(super) uniform: bool,
}

impl Writer {
    /// Generates phase number `phase` of kernel number `number`.
    pub(super) fn phase(&mut self, phase: usize, number: u64) -> Phase {
        self.phase = phase;
        self.left = 1 + self.draw.below(self.size.statements);
        self.atomic = self.draw.pick(&["", "Add", "Or", "Xor", "Min", "Max", "And"]);
        let mut body = Vec::new();
        if phase == 0 {
            body.extend(self.basics(number).into_iter().map(Statement::Line));
        }
        while self.left > 0 {
            body.push(self.statement(0, false));
        }
        let called = self.draw.one_in(4);
        let across = (0..self.draw.below(self.size.across + 1)).map(|_| self.across()).collect();
        Phase { body, called, across }
    }

    fn across(&mut self) -> Across {
        let words: Vec<_> =
            self.variables.iter().filter(|v| v.of == U32).map(|v| v.name.clone()).collect();
        let mut word = || words[self.draw.below(words.len())].clone();
        let (to, from, by) = (word(), word(), word());
        let lane_of = |lane: &str| format!("lane_of(seen, t, {lane}, {to})");
        let (gpu, host) = match self.draw.below(6) {
            0 => {
                let lane = format!("(({by} + t) & 31)");
                (
                    format!("(u32)__builtin_amdgcn_ds_bpermute((((t & ~31u) | {lane}) << 2), @)"),
                    lane_of(&lane),
                )
            }
            1 => {
                let [and, or, xor] = [(); 3].map(|()| self.draw.below(32));
                let pattern = and | or << 5 | xor << 10;
                (
                    format!("(u32)__builtin_amdgcn_ds_swizzle(@, {pattern})"),
                    lane_of(&format!("(((t & 31 & {and}) | {or}) ^ {xor})")),
                )
            }
            2 => {
                let bit = self.draw.below(32);
                (format!("BALLOT(@ >> {bit} & 1)"), format!("ballot_of(seen, t, {bit})"))
            }
            3 => {
                let lane = self.draw.below(32).to_string();
                (format!("READ_LANE(@, {lane})"), lane_of(&lane))
            }
            4 => {
                let choice = [(); 2].map(|()| format!("{:#x}u", self.draw.next() as u32));
                let [low, high] = &choice;
                let other = self.draw.below(2);
                (
                    format!("PERM_LANE{other}(@, {low}, {high})"),
                    lane_of(&format!("perm_lane{other}(t, {low}, {high})")),
                )
            }
            _ => {
                let n = 1 + self.draw.below(15);
                let any = self.draw.below(256);
                let control = self.draw.pick(&[any, 0x100 + n, 0x110 + n, 0x120 + n, 0x140, 0x141]);
                let rows = self.draw.pick(&[15, 15, 5, 10]);
                let every = self.draw.below(16);
                let banks = self.draw.pick(&[15, 15, every]);
                let zero = self.draw.below(2);
                (
                    format!(
                        "(u32)__builtin_amdgcn_update_dpp($, @, {control}, {rows}, {banks}, {zero})"
                    ),
                    lane_of(&format!("dpp_source(t & 31, {control}, {rows}, {banks}, {zero})")),
                )
            }
        };
        Across { to, from, gpu, host }
    }

    fn statements(&mut self, most: usize, depth: usize, in_loop: bool) -> Vec<Statement> {
        (0..1 + self.draw.below(most)).map(|_| self.statement(depth, in_loop)).collect()
    }

    fn statement(&mut self, depth: usize, in_loop: bool) -> Statement {
        self.left = self.left.saturating_sub(1);
        if depth < 3 && self.draw.one_in(6) {
            return match self.draw.below(4) {
                0 | 1 => {
                    let head = format!("if ({})", self.condition(2));
                    Statement::Block(head, self.statements(3, depth + 1, in_loop))
                }
                2 => {
                    let end = self.expression(U32, 1);
                    let i = format!("i{depth}");
                    let head = format!("for (u32 {i} = 0, n = ({end}) & 7; {i} < n; {i}++)");
                    Statement::Block(head, self.statements(3, depth + 1, true))
                }
                _ => {
                    let of = self.expression(U32, 1);
                    let cases = (0..3).map(|case| {
                        let mut body = self.statements(2, depth + 1, false);
                        if self.draw.below(4) > 0 {
                            body.push(Statement::Line("break;".to_owned()));
                        }
                        Statement::Block(format!("case {case}:"), body)
                    });
                    let cases = cases.collect();
                    Statement::Block(format!("switch (({of}) & 3)"), cases)
                }
            };
        }
        let word = self.expression(U32, 2);
        let depth = self.size.depth;
        Statement::Line(match self.draw.below(22) {
            0 => format!("s->array[({word}) & 7] = {};", self.expression(U32, 2)),
            1 => format!("*(u64 *)(own + t * 4 + 2) = {};", self.expression(scalar('u', 64), 2)),
            2 => format!(
                "((u16 *)(own + t * 4))[({word}) & 3] = {};",
                self.expression(scalar('u', 16), 2)
            ),
            3 => format!("own[t * 4 + (({word}) & 3)] = {};", self.expression(U32, 2)),
            4 => format!(
                "((u8 *)(own + t * 4))[({word}) & 15] = {};",
                self.expression(scalar('u', 8), 2)
            ),
            5 | 6 if !self.atomic.is_empty() => {
                let (name, value) = (self.atomic, self.expression(U32, 2));
                let place = self.draw.pick(&["both", "all"]);
                format!("ATOMIC_{name}({place} + (({word}) & {}), {value});", SHARED - 1)
            }
            20 => self.exchange(&word),
            7 if in_loop => {
                let what = self.draw.pick(&["break", "continue"]);
                format!("if ({}) {what};", self.condition(1))
            }
            _ => {
                let number = self.draw.below(self.variables.len());
                let Variable { of, name } = self.variables[number].clone();
                if of.lanes > 1 && self.draw.one_in(3) {
                    let value = self.expression(of.element(), depth);
                    let lane = self.draw.below(of.lanes).to_string();
                    let any = format!("({word}) & {}", of.lanes - 1);
                    let lane = if self.draw.one_in(3) { any } else { lane };
                    format!("{name}[{lane}] = {value};")
                } else {
                    format!("{name} = {};", self.expression(of, depth))
                }
            }
        })
    }

    /// Returns an atomic on a word that only one work-item uses. The old value of this word does not depend on the
    /// order of the work-items.
    fn exchange(&mut self, word: &str) -> String {
        let place = self.draw.pick(&["own + t * 4", "far"]);
        let what = self
            .draw
            .pick(&["Add", "Sub", "And", "Or", "Xor", "Min", "Max", "Exch", "CAS", "Inc", "Dec"]);
        let [of, at] = match self.draw.below(3) {
            0 => ["u64", "2"],
            1 => ["i32", "3"],
            _ => ["u32", "3"],
        };
        // A value with 64 bits needs an offset at which it fits. For signed words, only `Min`, `Max` and `Add` exist,
        // and for 64-bit words, `Inc`, `Dec` and `Sub` do not exist.
        let (what, place) = match of {
            "u64" if ["Inc", "Dec", "Sub"].contains(&what) => {
                ("Add", format!("(u64 *)({place} + 2)"))
            }
            "u64" => (what, format!("(u64 *)({place} + 2)")),
            "i32" if !["Min", "Max", "Add"].contains(&what) => {
                ("Min", format!("(i32 *)({place} + (({word}) & {at}))"))
            }
            _ => (what, format!("({of} *)({place} + (({word}) & {at}))")),
        };
        let type_of = match of {
            "u64" => scalar('u', 64),
            "i32" => scalar('i', 32),
            _ => U32,
        };
        let value = self.expression(type_of, 1);
        let to = self.draw.below(3);
        let all = if what == "CAS" {
            let other = self.expression(type_of, 1);
            format!("OLD_{what}({of}, {place}, {value}, {other})")
        } else {
            format!("OLD_{what}({of}, {place}, {value})")
        };
        let high = if of == "u64" { " >> 7" } else { "" };
        format!("s->u32_{to} = (u32)({all}{high});")
    }
}
