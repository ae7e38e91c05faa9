//! Converts parsed options back into arguments, to print a command line that repeats a search. The options are
//! destructured by name, so that a new option does not compile until its arguments are written here.

use std::fmt::Display;

use clap::ValueEnum;

use bisect::INSTALL_COST;

use super::{Bisect, DeviceKind, ExecutionOptions, Origin, TargetOptions};

#[derive(Default)]
struct ArgumentList(Vec<String>);

impl ArgumentList {
    /// Adds an option once for each of its values.
    fn values<T: Display>(&mut self, option: &str, values: impl IntoIterator<Item = T>) {
        self.0.extend(values.into_iter().map(|value| format!("{option}={value}")));
    }

    /// Adds an option without a value, if it was given.
    fn flag(&mut self, option: &str, given: bool) {
        self.0.extend(given.then(|| option.to_owned()));
    }

    /// Adds an option with one of its possible values.
    fn choice(&mut self, option: &str, value: &impl ValueEnum) {
        let value = value.to_possible_value();
        self.values(option, value.as_ref().map(|value| value.get_name()));
    }
}

impl Bisect {
    /// Returns arguments that result in these options when they are parsed.
    pub(crate) fn words(&self) -> Vec<String> {
        let Bisect {
            case,
            good,
            bad,
            fixed,
            source,
            sources_file,
            to,
            axis,
            packages,
            skip,
            list,
            dry_run,
            regress,
            fault,
            rate,
            install_cost,
            budget_runs,
            budget_installs,
            budget_seconds,
            disk_budget,
            cross,
            out,
            resume,
            replay,
            from,
            on,
            program,
            matching,
            command,
        } = self;
        let mut words = ArgumentList(case.iter().cloned().collect());
        words.values("--good", good);
        words.values("--bad", bad);
        words.flag("--fixed", *fixed);
        words.values("--source", source);
        words.values("--sources-file", sources_file.iter().map(|path| path.display()));
        words.values("--to", to);
        words.values("--axis", axis);
        words.values("--packages", packages);
        words.values("--skip", skip);
        words.flag("--list", *list);
        words.flag("--dry-run", *dry_run);
        if *regress != super::Regress::Signature {
            words.choice("--regress", regress);
        }
        words.values("--fault", fault);
        words.values("--rate", rate);
        words.values("--install-cost", (*install_cost != INSTALL_COST).then_some(install_cost));
        words.values("--budget-runs", budget_runs);
        words.values("--budget-installs", budget_installs);
        words.values("--budget-seconds", budget_seconds);
        words.values("--disk-budget", disk_budget);
        words.flag("--cross", *cross);
        words.values("--out", out.iter().map(|path| path.display()));
        words.flag("--resume", *resume);
        words.values("--replay", replay.iter().map(|path| path.display()));
        from.put(&mut words);
        on.put(&mut words);
        words.values("--program", program.iter().map(|path| path.display()));
        words.values("--match", matching);
        if !command.is_empty() {
            words.0.push("--".to_owned());
            words.0.extend(command.iter().cloned());
        }
        words.0
    }
}

impl TargetOptions {
    /// Returns arguments that result in these options when they are parsed.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = ArgumentList::default();
        self.put(&mut words);
        words.0
    }
}

impl Origin {
    fn put(&self, words: &mut ArgumentList) {
        let Origin { cases_from, trust } = self;
        words.values("--cases-from", cases_from.iter().map(|path| path.display()));
        words.flag("--trust", *trust);
    }
}

impl ExecutionOptions {
    fn put(&self, words: &mut ArgumentList) {
        let ExecutionOptions {
            target,
            jobs,
            cards,
            timeout,
            quiet_timeout,
            late,
            limit,
            environment,
            recover,
            worker,
        } = self;
        target.put(words);
        words.values("--jobs", jobs);
        words.values("--cards", cards);
        words.values("--timeout", (*timeout != ExecutionOptions::TIMEOUT).then_some(timeout));
        words.values(
            "--quiet-timeout",
            (*quiet_timeout != ExecutionOptions::QUIET_TIMEOUT).then_some(quiet_timeout),
        );
        words.values("--late", late);
        words.values("--limit", limit);
        words.values("--in", environment);
        words.values("--recover", recover);
        words.values("--worker", worker.iter().map(|path| path.display()));
    }
}

impl TargetOptions {
    /// Adds these options to the arguments. The stack and the architecture are always written, because environment
    /// variables may set their defaults.
    fn put(&self, words: &mut ArgumentList) {
        let TargetOptions { rocm, with, device, gfx, mirrors, env, launcher } = self;
        words.values("--rocm", [rocm]);
        words.values("--with", with);
        if *device != DeviceKind::Auto {
            words.choice("--device", device);
        }
        words.values("--gfx", [gfx]);
        words.values("--mirror", &mirrors.mirror);
        words.values("--env", env);
        words.values("--launcher", launcher);
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, CommandFactory, FromArgMatches};

    use super::{super::Cli, Bisect};

    fn parsed(words: &[String]) -> Result<Bisect, clap::Error> {
        let command = Bisect::augment_args(clap::Command::new("bisect").no_binary_name(true));
        Bisect::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Returns arguments that set the option to a value other than its default. If the option requires another option,
    /// the arguments set that option too.
    fn with(option: &clap::Arg) -> Vec<String> {
        let name = option.get_long().map(|name| format!("--{name}"));
        let values: Vec<String> = match option.get_possible_values().as_slice() {
            [] => owned(&["7", "0.5", "a=b c"]),
            some => some.iter().map(|value| value.get_name().to_owned()).collect(),
        };
        let flag = !option.get_action().takes_values();
        let said = values.iter().map(|value| match &name {
            Some(name) if flag => name.clone(),
            Some(name) => format!("{name}={value}"),
            None => value.clone(),
        });
        let beside: [&[&str]; 4] = [&["a/b"], &["--program=p"], &["a/b", "--cases-from=x"], &[]];
        let all =
            said.flat_map(|said| beside.map(|beside| [owned(beside), vec![said.clone()]].concat()));
        let plain = |words: &Vec<String>| parsed(&words[..words.len() - 1]).ok();
        let differs = |words: &Vec<String>| {
            parsed(words).is_ok_and(|read| plain(words).is_none_or(|plain| plain != read))
        };
        all.into_iter()
            .find(differs)
            .unwrap_or_else(|| panic!("no value of {} is read as another", option.get_id()))
    }

    #[test]
    fn every_option_is_written_as_it_is_read() {
        let command = Cli::command();
        let bisect = command.find_subcommand("bisect").expect("it is a command");
        let options = bisect.get_arguments().filter(|option| option.get_id() != "help");
        let mut seen = 0;
        for option in options {
            let typed = match option.get_id().as_str() {
                "command" => owned(&["--good=first", "--", "sh", "-c", "--rocm=x 'y'"]),
                _ => with(option),
            };
            let read = parsed(&typed).expect("it was read before");
            let again = parsed(&read.words());
            assert!(
                again.as_ref().is_ok_and(|again| *again == read),
                "{typed:?}: {:?}",
                read.words()
            );
            seen += 1;
        }
        assert!(seen > 30, "{seen} options");
    }
}
