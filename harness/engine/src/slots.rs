//! The GPUs that trials run on, one trial at a time on each.

use crate::card::Card;

/// Hides all GPUs but these from the libraries of a process, in every release: HIP_VISIBLE_DEVICES takes no UUIDs before 6.
/// <https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html>
pub(crate) const VISIBLE: &str = "ROCR_VISIBLE_DEVICES";

/// What hides GPUs besides.
const ALSO: [&str; 3] = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

/// The lock where the driver lists no GPU.
const UNLISTED: &str = "turn-on-the-gpu";

/// Where one trial at a time runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The GPU that is all that a trial sees; none where it sees every one, and takes the first.
    pub(crate) card: Option<Named>,
    /// The names of the locks that a trial here takes, in the order in which everybody takes them.
    pub(crate) locks: Vec<String>,
}

impl Slot {
    /// By which what is known of its GPU is kept.
    pub(crate) fn first_lock(&self) -> &str {
        self.locks.first().map_or("", String::as_str)
    }
}

/// A GPU by its names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    /// For people: its PCI address, with the number of the partition after a slash.
    pub(crate) name: String,
    /// As the runtime tells it.
    pub(crate) bdf: String,
    /// Of [`VISIBLE`]: its UUID, so that another one cannot take its number after a reset; the number where it has none.
    pub(crate) visible: String,
}

/// The slots of a machine with these cards. Trials that see every GPU may use every one, so they wait for all.
///
/// # Errors
/// Variables that hide GPUs where there are several: nobody would know which one a trial is on.
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

/// The slots that `--cards`, or who `said` it, asks for: `all`, or numbers, PCI addresses and UUIDs.
///
/// # Errors
/// Each word that names none, and one that names what another named before; variables that hide GPUs besides.
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

/// Where a trial was that had its turn on `slot` and ran on the GPU with this address: of those who see every GPU, not all take the first.
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

/// Whether a variable of this name says which GPUs a process sees.
pub(crate) fn hides(name: &str) -> bool {
    name == VISIBLE || ALSO.contains(&name)
}

/// What the GPUs are called that were chosen.
pub(crate) fn names(slots: &[Slot]) -> Vec<&str> {
    slots.iter().filter_map(|slot| Some(slot.card.as_ref()?.name.as_str())).collect()
}

/// A partitioned GPU is called by its number: its parts share the address.
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
    fn a_card_is_chosen_by_each_of_its_names() {
        let all = choose(&["all"], &[]).unwrap();
        // Partitions share the number of the hardware, and an APU has none.
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
    fn all_mistakes_are_told() {
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

    /// Who sees every GPU waits for each, in the order in which others would.
    #[test]
    fn who_does_not_choose_takes_every_lock() {
        let all = without_choice(&machine(), [].iter()).unwrap();
        let [slot] = &all[..] else { panic!() };
        let each: Vec<_> =
            choose(&["all"], &[]).unwrap().into_iter().flat_map(|s| s.locks).collect();
        assert_eq!((&slot.card, &slot.locks), (&None, &each));
        assert!(each.iter().all(|lock| !lock.contains('/')), "{each:?}");
        let none = without_choice(&[], [].iter()).unwrap();
        assert_eq!(none[0].locks, ["turn-on-the-gpu"]);
    }

    /// What is known of a GPU is kept under its own name, whichever a trial took.
    #[test]
    fn a_trial_that_sees_every_gpu_is_put_down_to_the_one_that_it_took() {
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
    fn what_hides_gpus_is_refused_where_there_are_several() {
        let hidden = ["HOME".to_owned(), "HIP_VISIBLE_DEVICES".to_owned()];
        let told = without_choice(&machine(), hidden.iter()).unwrap_err();
        assert!(told.len() == 1 && told[0].contains("HIP_VISIBLE_DEVICES"), "{told:?}");
        assert!(without_choice(&machine()[..1], hidden.iter()).is_ok());
    }
}
