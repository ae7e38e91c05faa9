//! The GPUs that trials run on, one trial at a time on each.

use crate::card::Card;

/// Variable that restricts the GPUs of a process, in every release. HIP_VISIBLE_DEVICES takes no UUIDs before ROCm 6.
/// <https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html>
pub(crate) const VISIBLE: &str = "ROCR_VISIBLE_DEVICES";

/// Other variables that restrict the GPUs of a process.
const ALSO: [&str; 3] = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

/// Name of the lock if the driver lists no GPU.
const UNLISTED: &str = "turn-on-the-gpu";

/// A place for one trial at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The only GPU that a trial sees; none if trials see all GPUs and use the first.
    pub(crate) card: Option<Named>,
    /// Names of the locks that a trial takes here, in an order that is the same for all slots.
    pub(crate) locks: Vec<String>,
}

impl Slot {
    /// Returns the lock under whose name the state of the GPU is stored.
    pub(crate) fn first_lock(&self) -> &str {
        self.locks.first().map_or("", String::as_str)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    /// Name in messages: the PCI address, with a slash and the number of a partition.
    pub(crate) name: String,
    /// PCI address as the runtime reports it.
    pub(crate) bdf: String,
    /// Value for [`VISIBLE`]: the UUID, or the number if the GPU has none. After a reset another GPU may have the
    /// number.
    pub(crate) visible: String,
}

/// Returns the slot without a choice of GPUs. Its trials see all GPUs and may use any, so they take all locks.
///
/// # Errors
/// Returns an error for variables that hide GPUs of several, because the GPU of a trial would be unknown.
pub(crate) fn without_choice<'a>(
    cards: &[Card],
    variables: impl Iterator<Item = &'a String>,
) -> Result<Vec<Slot>, Vec<String>> {
    let hiding = variables.filter(|name| cards.len() > 1 && hides(name));
    let problems: Vec<_> = hiding
        .map(|name| {
            format!("error: `--env {name}=...` hides GPUs, so nobody would know which GPU a trial is on; choose with `--cards`")
        })
        .collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    let locks: Vec<_> = named(cards).iter().map(lock).collect();
    let locks = if locks.is_empty() { vec![UNLISTED.to_owned()] } else { locks };
    Ok(vec![Slot { card: None, locks }])
}

/// Returns the slots for `--cards`, or for the variable called `said`: `all`, or numbers, PCI addresses and UUIDs.
///
/// # Errors
/// Returns all words that name no GPU, GPUs that are named twice, and variables that hide GPUs.
pub(crate) fn chosen<'a>(
    words: &[String],
    said: &str,
    cards: &[Card],
    variables: impl Iterator<Item = &'a String>,
) -> Result<Vec<Slot>, Vec<String>> {
    let named = named(cards);
    let mut problems: Vec<_> = variables
        .filter(|name| hides(name))
        .map(|name| {
            format!("error: `--env {name}=...` and `{said}` both say which GPUs trials see")
        })
        .collect();
    if named.is_empty() {
        problems.push(format!(
            "error: `{said}`: the driver lists no GPU in /sys/class/kfd; `rocrepro doctor` tells what looks wrong"
        ));
        return Err(problems);
    }
    let mut slots: Vec<Slot> = Vec::new();
    for word in words {
        let found: Vec<&Named> = match word.as_str() {
            "all" => named.iter().collect(),
            word => named
                .iter()
                .enumerate()
                .filter(|one| is_called(one, word))
                .map(|(_, card)| card)
                .collect(),
        };
        if found.is_empty() {
            let known = named.iter().enumerate().map(|(n, card)| format!("{n} ({})", card.name));
            let known = known.collect::<Vec<_>>().join(", ");
            problems.push(format!("error: `{said}`: no GPU is called `{word}`; there are {known}"));
        }
        for card in found {
            let slot = Slot { card: Some(card.clone()), locks: vec![lock(card)] };
            match slots.contains(&slot) {
                true => problems.push(format!("error: `{said}` names {} twice", card.name)),
                false => slots.push(slot),
            }
        }
    }
    if problems.is_empty() { Ok(slots) } else { Err(problems) }
}

/// Returns the slot of the GPU with this address, on which a trial ran that had its turn on `slot`. Trials that see all
/// GPUs need not use the first.
pub(crate) fn of_card(slot: &Slot, cards: &[Card], bdf: &str) -> Slot {
    let named = named(cards);
    let card = named.into_iter().find(|card| card.bdf.eq_ignore_ascii_case(bdf));
    match card.filter(|_| slot.card.is_none() && !bdf.is_empty()) {
        Some(card) if slot.first_lock() != lock(&card) => {
            Slot { locks: vec![lock(&card)], card: Some(card) }
        }
        _ => slot.clone(),
    }
}

/// Returns true if a variable of this name restricts the GPUs that a process sees.
pub(crate) fn hides(name: &str) -> bool {
    name == VISIBLE || ALSO.contains(&name)
}

pub(crate) fn names(slots: &[Slot]) -> Vec<&str> {
    slots.iter().filter_map(|slot| Some(slot.card.as_ref()?.name.as_str())).collect()
}

/// Returns true if a word names a GPU. Partitions share a PCI address, so that only number and full name identify them.
fn is_called((number, card): &(usize, &Named), word: &str) -> bool {
    word == number.to_string()
        || [&card.name, &card.visible].iter().any(|name| name.eq_ignore_ascii_case(word))
}

fn lock(card: &Named) -> String {
    format!("turn-on-{}", card.name.replace('/', "-"))
}

fn named(cards: &[Card]) -> Vec<Named> {
    let several = |bdf: &str| cards.iter().filter(|card| card.bdf == bdf).count() > 1;
    let same = |uuid: &String| cards.iter().filter(|card| card.uuid.as_ref() == Some(uuid)).count();
    let named = cards.iter().enumerate().map(|(number, card)| Named {
        name: match card.bdf.as_str() {
            "" => format!("GPU {number}"),
            bdf if several(bdf) => format!("{bdf}/{}", card.partition),
            bdf => bdf.to_owned(),
        },
        bdf: card.bdf.clone(),
        visible: card.uuid.clone().filter(|uuid| same(uuid) == 1).unwrap_or(number.to_string()),
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(bdf: &str, partition: u32, uuid: Option<&str>) -> Card {
        let uuid = uuid.map(str::to_owned);
        Card { minor: 128, gfx: "gfx942".to_owned(), bdf: bdf.to_owned(), partition, uuid }
    }

    fn machine() -> [Card; 4] {
        [
            card("0000:03:00.0", 0, Some("GPU-00000000000000aa")),
            card("0000:c5:00.0", 0, None),
            card("0000:43:00.0", 0, Some("GPU-00000000000000bb")),
            card("0000:43:00.0", 1, Some("GPU-00000000000000bb")),
        ]
    }

    fn choose(words: &[&str], variables: &[&str]) -> Result<Vec<Slot>, Vec<String>> {
        let owned =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        chosen(&owned(words), "--cards", &machine(), owned(variables).iter())
    }

    fn visible(slots: &[Slot]) -> Vec<&str> {
        slots.iter().map(|slot| slot.card.as_ref().unwrap().visible.as_str()).collect()
    }

    #[test]
    fn every_name_of_a_gpu_selects_it() {
        let all = choose(&["all"], &[]).unwrap();
        // Partitions share the serial number, and an APU has none.
        assert_eq!(visible(&all), ["GPU-00000000000000aa", "1", "2", "3"]);
        for (number, names) in [
            (0, ["0", "0000:03:00.0", "gpu-00000000000000AA"]),
            (1, ["1", "0000:C5:00.0", "0000:c5:00.0"]),
            (3, ["3", "0000:43:00.0/1", "3"]),
        ] {
            for name in names {
                assert_eq!(choose(&[name], &[]).unwrap(), all[number..=number]);
            }
        }
        assert_eq!(visible(&choose(&["2", "0"], &[]).unwrap()), ["2", "GPU-00000000000000aa"]);
    }

    #[test]
    fn reports_all_mistakes() {
        let told = choose(&["4", "0", "all", "0000:43:00.0"], &["HIP_VISIBLE_DEVICES", "HOME"]);
        let told = told.unwrap_err();
        assert!(told[0].contains("`--env HIP_VISIBLE_DEVICES=...` and `--cards`"), "{told:?}");
        assert!(
            told[1].contains("no GPU is called `4`; there are 0 (0000:03:00.0), 1"),
            "{told:?}"
        );
        assert!(told[2].contains("names 0000:03:00.0 twice"), "{told:?}");
        assert!(told[3].contains("no GPU is called `0000:43:00.0`"), "{told:?}");
        assert_eq!(told.len(), 4);
        let none = chosen(&["all".to_owned()], "ROCREPRO_CARDS", &[], [].iter()).unwrap_err();
        assert!(none[0].contains("`ROCREPRO_CARDS`: the driver lists no GPU"), "{none:?}");
    }

    /// A trial that sees all GPUs takes all locks, in the usual order.
    #[test]
    fn trials_without_choice_take_all_locks() {
        let all = without_choice(&machine(), [].iter()).unwrap();
        let [slot] = &all[..] else { panic!() };
        let each: Vec<_> =
            choose(&["all"], &[]).unwrap().into_iter().flat_map(|s| s.locks).collect();
        assert_eq!((&slot.card, &slot.locks), (&None, &each));
        assert!(each.iter().all(|lock| !lock.contains('/')), "{each:?}");
        let none = without_choice(&[], [].iter()).unwrap();
        assert_eq!(none[0].locks, ["turn-on-the-gpu"]);
    }

    /// The state of a GPU is stored under its own name, whichever GPU a trial used.
    #[test]
    fn trial_is_attributed_to_the_gpu_that_it_used() {
        let all = without_choice(&machine(), [].iter()).unwrap().remove(0);
        let own = |bdf: &str| of_card(&all, &machine(), bdf);
        for first in ["", "0000:03:00.0", "0000:99:00.0"] {
            assert_eq!(own(first), all);
        }
        let second = &choose(&["1"], &[]).unwrap()[0];
        assert_eq!(own("0000:C5:00.0"), *second);
        assert_eq!(of_card(second, &machine(), "0000:03:00.0"), *second);
    }

    #[test]
    fn rejects_variables_that_hide_gpus() {
        let hidden = ["HOME".to_owned(), "HIP_VISIBLE_DEVICES".to_owned()];
        let told = without_choice(&machine(), hidden.iter()).unwrap_err();
        assert!(told.len() == 1 && told[0].contains("HIP_VISIBLE_DEVICES"), "{told:?}");
        assert!(without_choice(&machine()[..1], hidden.iter()).is_ok());
    }
}
