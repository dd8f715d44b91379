//! The rules about crates of `CONTRIBUTING.md` and `docs/architecture.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use zsched_tests::source;

/// A crate of the workspace: its folder, the name in the architecture's table, and its texts.
struct WorkspaceCrate {
    folder: PathBuf,
    name: String,
    manifest: String,
}

impl WorkspaceCrate {
    fn read(folder: PathBuf) -> Option<WorkspaceCrate> {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"zsched-"))?;
        let name = name.trim_end_matches('"').replace('-', "_");
        Some(WorkspaceCrate { folder, name, manifest })
    }

    /// The crates of the workspace that its programs use, without those of tests.
    fn dependencies(&self) -> Vec<String> {
        let lines = self.manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| line.strip_prefix("zsched-"));
        names.filter_map(|name| Some(name.split(['.', ' ']).next()?.replace('-', "_"))).collect()
    }

    fn lib(&self) -> String {
        let root = ["lib.rs", "main.rs"].map(|name| self.folder.join(name));
        let root = root.iter().find(|path| path.exists()).expect("a root module");
        fs::read_to_string(root).expect("read")
    }

    /// The types at its root, apart from those that it takes from other crates.
    fn root_types(&self) -> Vec<String> {
        public_types(&self.lib())
    }
}

fn all_crates() -> Vec<WorkspaceCrate> {
    let folders = ["src", "ta"].into_iter().flat_map(|folder| {
        let entries = fs::read_dir(source().join(folder)).expect("a folder of the project");
        entries.map(|entry| entry.expect("an entry").path())
    });
    let more = [source().join("ta"), source().join("tests")];
    let crates: Vec<_> = folders.chain(more).filter_map(WorkspaceCrate::read).collect();
    assert!(crates.len() > 15, "found {} crates only", crates.len());
    crates
}

/// Returns the types that the text of a `lib.rs` declares, or takes from modules of its crate.
fn public_types(lib: &str) -> Vec<String> {
    let code: Vec<&str> = lib.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = format!("\n{}", code.join("\n"));
    let mut types = Vec::new();
    for item in code.split("\npub ").skip(1) {
        let (kind, rest) = item.split_once(' ').unwrap_or((item, ""));
        let declared = match kind {
            "use" if rest.starts_with("zsched_") => "",
            "use" => rest.split(';').next().unwrap_or_default(),
            "struct" | "enum" | "trait" | "type" => {
                rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
            }
            _ => "",
        };
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let words = declared.split(|c: char| !is_part(c));
        let is_type = |word: &&str| {
            word.starts_with(|c: char| c.is_uppercase())
                && word.contains(|c: char| c.is_lowercase())
        };
        types.extend(words.filter(is_type).map(str::to_string));
    }
    types
}

#[test]
fn public_types_have_one_name_each() {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in all_crates().iter().filter(|one| one.folder.join("lib.rs").exists()) {
        for name in one.root_types() {
            owners.entry(name).or_default().push(one.name.clone());
        }
    }
    assert!(owners.len() > 100, "found {} types only", owners.len());
    owners.retain(|_, crates| crates.len() > 1);
    assert!(owners.is_empty(), "types of one name at the roots of crates: {owners:#?}");
}

#[test]
fn libraries_say_what_they_must_not_know_and_where_to_begin() {
    for one in all_crates().iter().filter(|one| one.name != "tests") {
        let lib = one.lib();
        let lines = lib.lines().map_while(|line| line.strip_prefix("//!"));
        let head = lines.map(str::trim).collect::<Vec<_>>().join(" ");
        for words in ["must not know", "Begin with"] {
            assert!(head.contains(words), "the head of {}'s lib.rs lacks `{words}`", one.name);
        }
    }
}

/// `docs/architecture.md` lists each crate below those that it uses.
#[test]
fn architecture_lists_crates_above_their_users() {
    let text = fs::read_to_string(source().join("docs/architecture.md")).expect("a document");
    let rows = text.lines().skip_while(|line| *line != "| crate | content |").skip(2);
    let rows = rows.map_while(|line| line.strip_prefix("| `")?.split('`').next());
    let order: Vec<&str> = rows.collect();
    for one in all_crates() {
        let place = order.iter().position(|name| *name == one.name);
        let place = place.unwrap_or_else(|| panic!("{} is not listed", one.name));
        for used in one.dependencies() {
            assert!(order[..place].contains(&&*used), "{used} is not above {}", one.name);
        }
    }
    assert_eq!(order.len(), all_crates().len());
}

#[test]
fn type_check_finds_what_it_looks_for() {
    let lib = "//! pub use x::Y;\npub use one::{Alpha, MAX_LEN, beta};\npub use zsched_two::Gamma;\n\
               pub struct Delta<T>(T);\npub fn epsilon() {}\npub use three::Zeta;";
    assert_eq!(public_types(lib), ["Alpha", "Delta", "Zeta"]);
}
