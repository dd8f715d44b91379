//! Parts of manual pages that are generated from the definition of a command line.
//!
//! They are between comments in a page:
//!
//! ```text
//! .\" What follows is made from the options of mailq.
//! .Bl -tag -width Ds
//! ...
//! .El
//! .\" That was made from the options of mailq.
//! ```

use clap::{Arg, Command};

/// Returns the list of a program's options.
pub fn options(command: &Command) -> String {
    let mut arguments: Vec<&Arg> =
        command.get_arguments().filter(|a| !a.is_positional() && !a.is_hide_set()).collect();
    arguments.sort_by_key(|argument| sorting_key(argument));
    list(arguments.iter().map(|argument| item(argument)))
}

/// Returns the list of a program's commands, each with its own options.
///
/// Options of many commands are in a separate list before that.
pub fn commands(command: &Command) -> String {
    let shared = shared_options(command);
    let is_shared = |argument: &Arg| shared.iter().any(|other| is_same(other, argument));
    let mut page = String::from("Many commands take some of these:\n");
    page.push_str(&list(shared.iter().map(|argument| item(argument))));
    page.push_str(".Pp\nThe commands are:\n");
    page.push_str(&list(visible_commands(command).map(|command| {
        let mut head = format!(".It Cm {}", command.get_name());
        for argument in command.get_positionals() {
            head.push_str(&positional(argument));
        }
        let about = command.get_long_about().or(command.get_about());
        let mut entry =
            format!("{head}\n{}", prose(&about.map_or(String::new(), |a| a.to_string())));
        let (common, own): (Vec<&Arg>, Vec<&Arg>) =
            own_options(command).partition(|argument| is_shared(argument));
        if !common.is_empty() {
            let names: Vec<String> = common
                .iter()
                .filter_map(|argument| argument.get_long())
                .map(|long| format!("Fl \\-{long}"))
                .collect();
            entry.push_str(&format!(".Pq {}\n", names.join(" , ")));
        }
        if !own.is_empty() {
            entry.push_str(&list(own.iter().map(|argument| item(argument))));
        }
        entry
    })));
    page
}

fn visible_commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

fn own_options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        !argument.is_positional() && !argument.is_hide_set() && !argument.is_global_set()
    })
}

/// Returns the options that at least three commands have.
fn shared_options(command: &Command) -> Vec<&Arg> {
    let all: Vec<&Arg> = visible_commands(command).flat_map(own_options).collect();
    let mut shared: Vec<&Arg> = Vec::new();
    for argument in &all {
        let count = all.iter().filter(|other| is_same(other, argument)).count();
        if count >= 3 && !shared.iter().any(|other| is_same(other, argument)) {
            shared.push(argument);
        }
    }
    shared.sort_by_key(|argument| sorting_key(argument));
    shared
}

fn is_same(one: &Arg, other: &Arg) -> bool {
    one.get_id() == other.get_id() && text_of(one) == text_of(other)
}

/// Returns the description of an option, with its possible values.
fn text_of(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut text = help.map_or(String::new(), |help| help.to_string());
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_string())
        .collect();
    if argument.get_action().takes_values() && !values.is_empty() {
        text.push_str(&format!("\n\nOne of {}.", values.join(", ")));
    }
    let defaults: Vec<&str> =
        argument.get_default_values().iter().filter_map(|value| value.to_str()).collect();
    let default = defaults.join(" ");
    if argument.get_action().takes_values() && !default.is_empty() {
        text.push_str(&format!("\n\nThe default is {default}."));
    }
    text
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!(".Bl -tag -width Ds\n{}.El\n", items.collect::<String>())
}

fn sorting_key(argument: &Arg) -> (String, bool) {
    let short = argument.get_short().map(String::from);
    let name = short.or(argument.get_long().map(String::from)).unwrap_or_default();
    // Lower-case letters come before upper-case ones.
    (name.to_lowercase(), name.chars().next().is_some_and(char::is_uppercase))
}

fn item(argument: &Arg) -> String {
    let names: Vec<String> = [
        argument.get_short().map(|short| format!("Fl {short}")),
        argument.get_long().map(|long| format!("Fl \\-{long}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut head = format!(".It {}", names.join(" , "));
    if argument.get_action().takes_values() {
        head.push_str(&value(argument));
    }
    format!("{head}\n{}", prose(&text_of(argument)))
}

fn positional(argument: &Arg) -> String {
    let value = value(argument);
    match argument.is_required_set() {
        true => value,
        false => format!(" Op{value}"),
    }
}

/// ` Ar port | path`, ` Ar user Ns / Ns Ar password`.
fn value(argument: &Arg) -> String {
    let name = match argument.get_value_names() {
        Some(names) => names.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>().join(" "),
        None => argument.get_id().as_str().to_string(),
    };
    let ellipsis = match argument.get_num_args().is_some_and(|range| range.max_values() > 1) {
        true => " ...",
        false => "",
    };
    let shown = name.replace('|', " | ").replace('/', " Ns / Ns Ar ");
    format!(" Ar {shown}{ellipsis}")
}

/// Returns text with one sentence a line and with options, paths and quotations marked up.
fn prose(text: &str) -> String {
    let mut lines = String::new();
    for paragraph in text.split("\n\n") {
        let mut paragraph = paragraph.trim().to_string();
        if !paragraph.ends_with(['.', ':', '!', '?']) {
            paragraph.push('.');
        }
        for sentence in paragraph.split_inclusive(". ") {
            lines.push_str(&marked_up(sentence.trim_end()));
        }
    }
    lines
}

fn marked_up(sentence: &str) -> String {
    let mut out = String::new();
    let mut is_at_start = true;
    for word in sentence.split(' ') {
        match macro_for(word) {
            Some(line) => {
                if !is_at_start {
                    out.push('\n');
                }
                out.push_str(&line);
                out.push('\n');
                is_at_start = true;
            }
            None => {
                if !is_at_start {
                    out.push(' ');
                }
                let is_request = is_at_start && word.starts_with(['.', '\'']);
                out.push_str(if is_request { "\\&" } else { "" });
                out.push_str(&word.replace('\\', "\\e"));
                is_at_start = false;
            }
        }
    }
    if !is_at_start {
        out.push('\n');
    }
    out
}

/// `.Fl x ,` for `-x,`.
fn macro_for(word: &str) -> Option<String> {
    let (word, opening) = match word.strip_prefix('(') {
        Some(word) => (word, "( "),
        None => (word, ""),
    };
    // Punctuation within quotes does not end the sentence.
    let core = match (word.starts_with('"'), word.rfind('"')) {
        (true, Some(end)) if end > 0 => &word[..=end],
        _ => word.trim_end_matches(['.', ',', ';', ':', ')']),
    };
    let rest = &word[word.rfind(core)? + core.len()..];
    let rest: String = rest.chars().map(|c| format!(" {c}")).collect();
    let quoted = core.strip_prefix('"').and_then(|core| core.strip_suffix('"'));
    let is_option = |name: &str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && !name.is_empty()
    };
    let line = match (core.strip_prefix("--"), core.strip_prefix('-'), quoted) {
        (Some(long), ..) if is_option(long) => format!("Fl {opening}\\-{long}{rest}"),
        (None, Some(short), _) if is_option(short) => format!("Fl {opening}{short}{rest}"),
        (.., Some(quoted)) => format!("Ql {opening}{}{rest}", quoted.replace('\\', "\\e")),
        _ if core.len() > 1 && core.starts_with('/') => format!("Pa {opening}{core}{rest}"),
        _ => return None,
    };
    Some(format!(".{line}"))
}

/// Replaces the generated part between its comments. Panics if the page does not have them.
pub fn replaced(page: &str, of_what: &str, made: &str) -> String {
    let begin = format!(".\\\" What follows is made from the {of_what}.\n");
    let end = format!(".\\\" That was made from the {of_what}.\n");
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no line {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no line {end}"));
    [before, &begin, made, &end, after].concat()
}
