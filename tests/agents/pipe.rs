//! `pipe`, with shell scripts as programs.

use crate::support::{
    Agent, PIPE, Spool, allow, control_file, is_root, not_run, offset, wait_until,
};
use std::path::Path;
use std::time::Instant;

/// Returns a spool with message 7 for these recipients, a folder `bin`, and one for all to write.
fn spool(recipients: &[&str], body: &str) -> Spool {
    spool_with(&control_file("7", "local - alice@x", recipients), body)
}

fn spool_with(control: &str, body: &str) -> Spool {
    let spool = Spool::new();
    for folder in ["bin", "out"] {
        std::fs::create_dir(spool.path(folder)).expect("a folder");
    }
    allow(spool.path("out"), 0o777);
    spool.put("7", control, body);
    spool
}

/// Writes a script for `/bin/sh`. In its text, `OUT` is the folder for all to write.
fn script(spool: &Spool, name: &str, text: &str) -> String {
    let path = spool.path("bin").join(name);
    let out = spool.path("out");
    std::fs::write(&path, text.replace("OUT", &out.to_string_lossy())).expect("written");
    path.to_string_lossy().into_owned()
}

/// Gives message 7 to the script, with these words as arguments.
fn run(spool: &Spool, options: &[&str], text: &str, words: &[&str]) -> String {
    let path = script(spool, "script", text);
    let command = [&["-c", "pipe"], options, &["--command", "/bin/sh", &path], words].concat();
    spool.session(PIPE, &command, "7\th\n")
}

/// The reports of a session, without their place.
fn reports(answers: &str) -> Vec<&str> {
    answers.lines().filter_map(|line| Some(line.split_once("7/")?.1.split_once('\t')?.1)).collect()
}

fn tags(spool: &Spool) -> String {
    spool.lines("7", 'r').iter().map(|line| &line[1..2]).collect()
}

const ONE: [&str; 1] = ["pipe h bob@x"];
/// Records its arguments, a line each, and its input.
const RECORD: &str = "printf '%s\\n' \"$@\" > OUT/arguments.$$; cat > OUT/input.$$";

/// What the calls of [`RECORD`] have recorded, sorted.
fn recorded(spool: &Spool, what: &str) -> Vec<String> {
    let names = spool.names("out");
    let names = names.iter().filter(|name| name.starts_with(what));
    let mut texts: Vec<String> = names.map(|name| spool.read(&format!("out/{name}"))).collect();
    texts.sort();
    texts
}

#[test]
fn existing_sm_conf_works() {
    let spool = spool(&["uucp uunode n.uu.test!u", "uucp other v"], "body\nFrom here\n");
    let path = script(&spool, "uux", RECORD);
    let line = format!("uucp\tUE\t/bin/sh\t\tuux {path} - -r -a$g -gC $h!rmail ($u)\n");
    spool.write("sm.conf", &format!("# comment\nbroken\n{line}"));
    spool.write("zmailer.conf", &format!("MAILSHARE={}\n", spool.path("").display()));
    let zenv = spool.path("zmailer.conf").to_string_lossy().into_owned();
    let answers = spool.session(PIPE, &["-8c", "uucp", "-Z", &zenv, "uucp"], "7\tuunode\n");
    let place = offset(&spool.read("transport/7").replace("r+", "r "), 0);
    assert_eq!(answers, format!("#hungry\n7/{place}\t\tok3 passed to uucp\n#hungry\n"));
    assert_eq!(tags(&spool), "+ ");
    let arguments = "-\n-r\n-aalice@x\n-gC\nuunode!rmail\n(n.uu.test!u)\n";
    assert_eq!(recorded(&spool, "arguments"), [arguments]);
    let input = &recorded(&spool, "input")[0];
    let (from, message) = input.split_once('\n').expect("a line");
    assert!(from.starts_with("From alice@x ") && from.contains(" remote from "), "{from}");
    assert_eq!(message, "Subject: test\n\nbody\n>From here\n");
}

#[test]
fn wrong_sm_conf_is_refused_with_position() {
    let spool = spool(&ONE, "");
    spool.write("sm.conf", "good - /bin/true true\nbad mZ /bin/x x $y\n");
    let file = spool.path("sm.conf").to_string_lossy().into_owned();
    let run = |arguments: &[&str]| {
        let (said, status) = Agent::start(&spool, PIPE, arguments).end();
        (said, status.code())
    };
    let (said, code) = run(&["-c", "pipe", "-f", &file, "bad"]);
    assert_eq!(code, Some(78), "{said}");
    let error = format!("{file}:2:17: error: there is no macro `$y`");
    assert!(
        said.contains(&error) && said.contains("bad mZ /bin/x x $y\n                ^"),
        "{said}"
    );
    assert!(said.contains(&format!("{file}:2:6: this flag has no meaning")), "{said}");
    let (said, code) = run(&["-c", "pipe", "-f", &file, "gone"]);
    assert_eq!(code, Some(78));
    assert!(said.contains("there is no mailer gone; there are: good, bad"), "{said}");
    let (said, code) = run(&["--check", "-f", &file]);
    assert_eq!(code, Some(78));
    assert!(said.contains(&error) && said.ends_with("1 mailer can be used\n"), "{said}");
    spool.write("sm.conf", "good - /bin/true true\n");
    let (said, code) = run(&["--check", "-f", &file]);
    assert_eq!((said.as_str(), code), ("1 mailer can be used\n", Some(0)));
}

#[test]
fn exit_status_is_outcome() {
    for (code, report, status) in [
        (0, "ok3 passed to sh", ""),
        (64, "deferred sh ended with exit status 64: wrong command line", "4.3.5"),
        (65, "error2 sh ended with exit status 65: wrong data format", "5.6.0"),
        (67, "error2 sh ended with exit status 67: no such user", "5.1.1"),
        (68, "error2 sh ended with exit status 68: no such host", "5.1.2"),
        (69, "error2 sh ended with exit status 69: not available", "5.3.0"),
        (75, "deferred sh ended with exit status 75: temporary failure", "4.3.0"),
        (77, "error2 sh ended with exit status 77: permission denied", "5.7.0"),
        (78, "deferred sh ended with exit status 78: wrong configuration", "4.3.5"),
        (127, "deferred sh ended with exit status 127: the command was not found", "4.3.5"),
        (3, "deferred sh ended with exit status 3: unknown exit status 3", "4.3.0"),
    ] {
        let spool = spool(&ONE, "body\n");
        let answers = run(&spool, &[], &format!("cat >/dev/null; exit {code}"), &[]);
        let [found] = reports(&answers)[..] else { panic!("{answers}") };
        assert!(found.ends_with(&format!("\t{report}")), "{found}");
        let data = if report.starts_with("error2") {
            spool.lines("7", 'd')[0].clone()
        } else {
            found.into()
        };
        assert!(data.contains(&format!("\x01{status}")) || code == 0, "{code}: {data}");
        let tag = if code == 0 {
            "+"
        } else if report.starts_with('e') {
            "-"
        } else {
            " "
        };
        assert_eq!(tags(&spool), tag);
    }
}

#[test]
fn code_and_text_of_program_reach_sender() {
    let spool = spool(&ONE, "body\n");
    let text = "echo '5.2.2 the mailbox'; echo \"of bob's is full\" >&2; printf '\\033[2J'; exit 1";
    let answers = run(&spool, &[], text, &[]);
    let expected = "\terror2 5.2.2 the mailbox\rof bob's is full\r^[[2J";
    assert!(reports(&answers)[0].ends_with(expected), "{answers:?}");
    let note = &spool.lines("7", 'd')[0];
    assert!(
        note.contains("failed\x015.2.2 (the mailbox)\x01x-local; 550 (the mailbox)\x01\t"),
        "{note}"
    );
}

#[test]
fn program_that_cannot_be_run_defers() {
    let spool = spool(&ONE, "body\n");
    let folder = spool.path("bin").to_string_lossy().into_owned();
    for (program, why) in
        [("/nonexistent/prog", "No such file or directory"), (folder.as_str(), "Permission denied")]
    {
        let answers = spool.session(PIPE, &["-c", "pipe", "--command", program, "$u"], "7\th\n");
        let expected = format!("\tdeferred cannot run {program}: {why}");
        assert!(reports(&answers)[0].ends_with(&expected), "{answers}");
        assert_eq!(tags(&spool), " ");
    }
    let answers = run(&spool, &[], "kill -9 $$", &[]);
    assert!(answers.contains("\tdeferred sh was ended by signal 9"), "{answers}");
}

/// True while a process with this pid runs. A zombie does not run.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

#[test]
fn program_that_runs_too_long_is_killed_with_its_group() {
    for (text, body) in [
        ("sleep 1000 & echo $! > OUT/pid; echo before; wait", 10),
        // It neither reads nor listens to SIGTERM.
        ("trap '' TERM; echo before; sleep 1000 & echo $! > OUT/pid; wait; wait", 1 << 20),
    ] {
        let spool = spool(&ONE, &"x\n".repeat(body));
        let started = Instant::now();
        let answers = run(&spool, &["--timeout", "1"], text, &[]);
        assert!(started.elapsed().as_secs() >= 1);
        let expected = "\tdeferred sh was killed because it ran for too long: before";
        assert!(reports(&answers)[0].ends_with(expected), "{answers}");
        assert_eq!(tags(&spool), " ");
        let pid = spool.read("out/pid").trim().to_string();
        wait_until("all of the group is gone", || !runs(&pid));
    }
}

#[test]
fn large_output_does_not_block() {
    let spool = spool(&ONE, &"x\n".repeat(1 << 20));
    let text = "yes 'a line of output' | head -c 10000000; cat >/dev/null; exit 67";
    let answers = run(&spool, &[], text, &[]);
    let report = reports(&answers)[0];
    assert!(report.contains("exit status 67: no such user: a line of output\ra line"), "{report}");
    assert!((4000..5000).contains(&report.len()), "{}", report.len());
}

#[test]
fn program_that_does_not_read_decides_by_exit_status() {
    for (code, tag) in [(0, "+"), (67, "-"), (75, " ")] {
        for body in [0, 1 << 21] {
            let spool = spool(&ONE, &"x".repeat(body));
            run(&spool, &[], &format!("exit {code}"), &[]);
            assert_eq!(tags(&spool), tag);
        }
    }
}

#[test]
fn process_left_behind_is_not_waited_for() {
    for (redirect, body) in [("", 10), ("<&3", 10), ("<&3", 1 << 20)] {
        let spool = spool(&ONE, &"x\n".repeat(body));
        let text =
            format!("exec 3<&0; sleep 1000 {redirect} & echo $! > OUT/pid; echo done; exit 0");
        let answers = run(&spool, &["--timeout", "100"], &text, &[]);
        assert!(answers.contains("\tok3 passed to sh: done"), "{answers}");
        let pid = spool.read("out/pid").trim().to_string();
        assert!(runs(&pid), "a daemon that the program has started is left alone");
        std::process::Command::new("kill").arg(&pid).status().expect("kill starts");
    }
}

#[test]
fn process_left_behind_gets_whole_message() {
    let body = "0123456789\n".repeat(100_000);
    let spool = spool(&ONE, &body);
    let text = "exec 3<&0; { cat <&3 > OUT/tmp; mv OUT/tmp OUT/whole; } & exit 0";
    run(&spool, &["--flags", "n"], text, &[]);
    wait_until("all is read", || spool.path("out/whole").exists());
    assert_eq!(spool.read("out/whole"), format!("Subject: test\n\n{body}"));
}

#[test]
fn hostile_addresses_stay_arguments() {
    let users = ["$(id)", "a;id", "`id`", "*", "a'b\"c", "$g", "~root", "\\x", "b\u{e9}", "<u@x>"];
    let recipients: Vec<String> = users.iter().map(|user| format!("pipe h {user}")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    // A quote in an address runs to the next one: that user is between them.
    let recipients = recipients.into_iter().filter(|line| !line.contains('"')).collect::<Vec<_>>();
    let spool = spool(&recipients, "body\n");
    let answers = run(&spool, &[], RECORD, &["-d", "($u)"]);
    assert_eq!(answers.matches("\tok3 ").count(), recipients.len(), "{answers}");
    let mut expected: Vec<String> = users
        .iter()
        .filter(|user| !user.contains('"'))
        .map(|user| format!("-d\n({user})\n"))
        .collect();
    expected.sort();
    assert_eq!(recorded(&spool, "arguments"), expected);
}

#[test]
fn addresses_cannot_become_options() {
    let recipients = ["pipe h -oQ/tmp", "pipe h bob", "pipe h -"];
    let spool = spool(&recipients, "body\n");
    let answers = run(&spool, &["--flags", "m"], RECORD, &["-d", "$u"]);
    let refused = "error2 an address that begins with `-` would be an option of the program";
    assert!(reports(&answers)[2].ends_with(refused), "{answers}");
    assert_eq!(tags(&spool), "-++", "the others are not affected");
    assert_eq!(recorded(&spool, "arguments"), ["-d\n-\nbob\n"]);
    assert!(spool.lines("7", 'd')[0].contains("\x015.1.3 ("));
}

#[test]
fn address_behind_double_dash_may_begin_with_dash() {
    let spool = spool(&["pipe h -x"], "body\n");
    run(&spool, &[], RECORD, &["-e", "--", "$u"]);
    assert_eq!(recorded(&spool, "arguments"), ["-e\n--\n-x\n"]);
}

#[test]
fn hostile_sender_is_refused() {
    for (sender, status) in [("local - -be@x", "5.1.7"), ("local - a\u{1}b@x", "5.1.7")] {
        let spool = spool_with(&control_file("7", sender, &ONE), "body\n");
        let answers = run(&spool, &["--flags", "f"], RECORD, &["$u"]);
        assert!(reports(&answers)[0].contains("error2 "), "{answers}");
        assert!(spool.lines("7", 'd')[0].contains(&format!("\x01{status} (")));
        assert!(spool.names("out").is_empty());
    }
}

#[test]
fn null_sender_is_brackets_and_empty_variable() {
    let spool = spool_with(&control_file("7", "error <> <>", &ONE), "body\n");
    let text = "echo \"$@ [$SENDER] [$RECIPIENT]\"; cat > OUT/input";
    let answers = run(&spool, &["--flags", "P"], text, &["-f", "$g", "$h", "$u"]);
    assert!(answers.contains("passed to sh: -f <> h bob@x [] [bob@x]"), "{answers}");
    let input = spool.read("out/input");
    assert!(input.starts_with("From MAILER-DAEMON "), "{input}");
    assert!(input.contains("\nReturn-Path: <>\nSubject: test\n"), "{input}");
}

#[test]
fn environment_and_folder_are_minimal() {
    let spool = spool(&ONE, "body\n");
    let path = script(&spool, "script", "{ env | sed 's/=.*//' | sort; pwd; umask; } > OUT/seen");
    let words = ["-c", "pipe", "--umask", "027", "--command", "/bin/sh", &path];
    let preparation =
        "export SECRET=1 LD_DEBUG=1x TZ=UTC PATH=/bin:/usr/bin IFS=x; exec 2>/dev/null";
    let mut agent = Agent::start_after(&spool, preparation, PIPE, &words);
    agent.send("7\th\n");
    let (answers, _) = agent.end();
    assert!(answers.contains("\tok3 "), "{answers}");
    let seen = spool.read("out/seen");
    let names: Vec<&str> =
        seen.lines().filter(|name| !["_", "PWD", "OLDPWD", "SHLVL"].contains(name)).collect();
    let expected =
        ["HOME", "LOGNAME", "PATH", "RECIPIENT", "SENDER", "SHELL", "TZ", "USER", "/", "0027"];
    assert_eq!(names, expected);
}

#[test]
fn recipients_share_calls_if_program_takes_many() {
    let recipients: Vec<String> = (0..250).map(|n| format!("pipe h user{n}@x")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    let spool = spool(&recipients, "body\n");
    let answers = run(&spool, &["--flags", "mn"], RECORD, &["-r", "$g", "$u"]);
    assert_eq!(answers.matches("\tok3 ").count(), 250);
    assert_eq!(tags(&spool), "+".repeat(250));
    let calls = recorded(&spool, "arguments");
    let mut counts: Vec<usize> = calls.iter().map(|text| text.lines().count() - 2).collect();
    counts.sort_unstable();
    assert_eq!(counts, [50, 100, 100]);
    let mut users: Vec<&str> = calls.iter().flat_map(|text| text.lines().skip(2)).collect();
    users.sort_unstable();
    users.dedup();
    assert_eq!(users.len(), 250);
    assert_eq!(recorded(&spool, "input"), vec!["Subject: test\n\nbody\n"; 3]);
}

#[test]
fn senders_and_hosts_do_not_share_calls() {
    let mut control = String::from("@ 0x00000007\ni 7\no 6\nl <id@x>\n");
    for (sender, users) in [("a@x", ["u1", "u2"]), ("b@x", ["u3", "u4"])] {
        control += &format!("s local - {sender} 0\n");
        for user in users {
            control += &format!("r           pipe h {user} 0\n");
        }
        control += &format!("m\nTo: {sender}\n\n");
    }
    let spool = spool_with(&control, "body\n");
    run(&spool, &["--flags", "m"], RECORD, &["$g", "$u"]);
    assert_eq!(recorded(&spool, "arguments"), ["a@x\nu2\nu1\n", "b@x\nu4\nu3\n"]);
}

#[test]
fn failure_of_shared_call_is_that_of_all() {
    let spool = spool(&["pipe h a@x", "pipe h b@x | NOTIFY=NEVER"], "body\n");
    run(&spool, &["--flags", "m"], "exit 69", &["$u"]);
    assert_eq!((tags(&spool).as_str(), spool.lines("7", 'd').len()), ("--", 2));
}

#[test]
fn alias_program_runs_in_shell() {
    let out = "OUT/alias";
    let spool = Spool::new();
    let command = format!("{}/{out}", spool.path("").display());
    std::fs::create_dir(spool.path("OUT")).expect("a folder");
    allow(spool.path("OUT"), 0o777);
    let recipients = [
        format!("prog - \"| cat > {command}; echo $SENDER said\""),
        "prog - \"|exit 67\"@x".to_string(),
        "prog - alice@x".to_string(),
    ];
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    let control = control_file("7", "local - alice@x", &recipients);
    spool.put("7", &control, "body\n");
    let answers = spool.session(PIPE, &["--shell", "--flags", "n"], "7\t-\n");
    let reports = reports(&answers);
    assert!(
        reports[0].ends_with("error2 the address does not begin with `|`, so it is not a program")
    );
    assert!(reports[1].ends_with("error2 sh ended with exit status 67: no such user"), "{answers}");
    assert!(reports[2].ends_with("ok3 delivered by sh: alice@x said"), "{answers}");
    assert_eq!(spool.read(out), "Subject: test\n\nbody\n");
}

#[test]
fn requested_success_is_relayed_or_delivered() {
    for (options, action) in [(&[][..], "relayed"), (&["--final"], "delivered")] {
        let spool = spool(&["pipe h bob@x | NOTIFY=SUCCESS"], "body\n");
        let answers = run(&spool, options, "cat > /dev/null", &[]);
        assert!(answers.contains("\tok2 "), "{answers}");
        assert!(spool.lines("7", 'd')[0].contains(&format!("bob@x\x01{action}\x012.0.0 (")));
    }
}

#[test]
fn killed_agent_leaves_group_locked() {
    let spool = spool(&["pipe h a", "pipe h b", "other h c"], "body\n");
    let path = script(&spool, "script", "echo $$ > OUT/tmp; mv OUT/tmp OUT/pid; sleep 1000");
    let words = ["-c", "pipe", "--flags", "m", "--command", "/bin/sh", &path, "$u"];
    let mut agent = Agent::start(&spool, PIPE, &words);
    agent.send("7\th\n");
    wait_until("the program runs", || spool.path("out/pid").exists());
    agent.signal("KILL");
    let pid = agent.pid() % 1_000_000;
    agent.end();
    assert_eq!(spool.lines("7", 'r')[0], format!("r~{pid:6}    pipe h a 0"));
    assert_eq!(tags(&spool), "~~ ");
    let group = format!("-{}", spool.read("out/pid").trim());
    std::process::Command::new("kill").args(["--", &group]).status().expect("kill starts");
}

#[test]
fn stopped_agent_waits_for_its_program() {
    let spool = spool(&["pipe h a", "pipe h b"], "body\n");
    let text = "cat >/dev/null; echo > OUT/begun; while [ ! -e OUT/go ]; do sleep 0.01; done";
    let path = script(&spool, "script", text);
    let words = ["-c", "pipe", "--command", "/bin/sh", &path];
    let mut agent = Agent::start(&spool, PIPE, &words);
    agent.send("7\th\n");
    wait_until("the program runs", || spool.path("out/begun").exists());
    agent.signal("TERM");
    spool.write("out/go", "");
    let (answers, status) = agent.end();
    assert_eq!((answers.matches("\tok3 ").count(), status.code()), (1, Some(0)), "{answers}");
    assert_eq!(tags(&spool), " +");
}

/// A delivery program in the way of procmail and maildrop, for a list of users.
const DELIVER: &str = r#"
user= extension= sender=
while getopts a:d:f: option; do
    case $option in
        a) extension=$OPTARG ;;
        d) user=$OPTARG ;;
        f) sender=$OPTARG ;;
        *) exit 64 ;;
    esac
done
case $user in
    ann|bob) ;;
    *) echo "5.1.1 $user is not here"; exit 67 ;;
esac
folder=OUT/$user
mkdir -p "$folder/tmp" "$folder/new" || exit 75
new=$folder/tmp/$$
cat > "$new" || exit 74
[ -s "$new" ] || exit 65
if grep -qi '^subject: spam' "$new"; then rm "$new"; echo 'we do not want this'; exit 77; fi
mv "$new" "$folder/new/" || exit 73
"#;

#[test]
fn delivery_program_sorts_mail_of_many_users() {
    let recipients = ["procm - ann", "procm - eve", "procm - bob"];
    let control = control_file("7", "local - alice@x", &recipients);
    let spool = spool_with(&control, "body\n");
    spool.put(
        "8",
        &control.replace("i 7", "i 8").replace("Subject: test", "Subject: spam"),
        "body\n",
    );
    let path = script(&spool, "deliver", DELIVER);
    // The flag f would put its option before the script.
    spool.write("sm.conf", &format!("procm sSPn /bin/sh procmail {path} -f $g -a $h -d $u\n"));
    let file = spool.path("sm.conf").to_string_lossy().into_owned();
    let options = ["-8c", "procm", "--final", "-f", &file, "procm"];
    let answers = spool.session(PIPE, &options, "7\t-\n8\t-\n");
    assert_eq!(tags(&spool), "+-+", "{answers}");
    assert!(answers.contains("\t\terror2 5.1.1 eve is not here"), "{answers}");
    assert_eq!(
        answers.matches("exit status 77: permission denied: we do not want this").count(),
        2
    );
    for user in ["ann", "bob"] {
        let folder = format!("out/{user}/new");
        let [name] = &spool.names(&folder)[..] else { panic!("one letter for {user}") };
        let letter = spool.read(&format!("{folder}/{name}"));
        assert_eq!(letter, "Return-Path: <alice@x>\nSubject: test\n\nbody\n");
    }
}

/// Records the rights of the program.
const RIGHTS: &str = "echo $(id -u) $(id -g) $(id -G) $HOME $USER > OUT/rights; \
                      grep -E '^(Uid|Gid|Groups)' /proc/self/status >> OUT/rights";

/// Runs [`RIGHTS`] for a recipient with this privilege column.
fn rights(privilege: &str, options: &[&str]) -> (String, String) {
    let control = control_file("7", "local - alice@x", &ONE);
    let control = control.replace("bob@x 0", &format!("bob@x {privilege}"));
    let spool = spool_with(&control, "body\n");
    let answers = run(&spool, options, RIGHTS, &[]);
    let path = spool.path("out/rights");
    let seen = if Path::exists(&path) { spool.read("out/rights") } else { String::new() };
    (seen, answers)
}

#[test]
fn program_has_rights_of_privilege_column() {
    if !is_root() {
        return not_run("programs of other users: needs root");
    }
    let account = zsched_sys::find_account("daemon").expect("an answer").expect("daemon exists");
    let nobody = zsched_sys::find_account("nobody").expect("an answer").expect("nobody exists");
    let shown = |a: &zsched_sys::Account| {
        let zsched_sys::Account { name, uid, gid, home, .. } = a;
        format!(
            "{uid} {gid} {gid} {} {name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\nGroups:\t",
            home.display()
        )
    };
    for (privilege, expected) in [
        (account.uid.to_string(), &account),
        ("0".to_string(), &nobody),
        ("-1".to_string(), &nobody),
        ("-2".to_string(), &nobody),
        ("65534".to_string(), &nobody),
        ("root".to_string(), &nobody),
        ("4294967296".to_string(), &nobody),
    ] {
        let (seen, answers) = rights(&privilege, &[]);
        assert!(answers.contains("\tok3 "), "{answers}");
        assert_eq!(seen.trim_end(), shown(expected).trim_end(), "{privilege}");
    }
    // An account that is missing now may be there again later.
    let (seen, answers) = rights("3999999999", &[]);
    let why = "deferred cannot find the user to run as: no account has the user id 3999999999";
    assert!(seen.is_empty() && answers.contains(why), "{answers}");
}

#[test]
fn rights_of_root_must_be_asked_for() {
    if !is_root() {
        return not_run("programs of other users: needs root");
    }
    for options in [&["--user", "root"][..], &["-u", "0:0"], &["--flags", "S"]] {
        let (seen, answers) = rights("65534", options);
        assert!(seen.starts_with("0 0 "), "{options:?}: {seen}{answers}");
    }
    let (seen, _) = rights("0", &["--user", "daemon:4242", "--flags", "S"]);
    assert!(seen.starts_with("1 4242 4242 "), "{seen}");
}

#[test]
fn recipients_of_different_users_do_not_share_calls() {
    let control = control_file("7", "local - alice@x", &["pipe h a", "pipe h b", "pipe h c"]);
    let spool = spool_with(&control.replace(" c 0", " c 1"), "body\n");
    run(&spool, &["--flags", "m"], RECORD, &["$u"]);
    assert_eq!(recorded(&spool, "arguments"), ["b\na\n", "c\n"]);
}

#[test]
fn ordinary_agent_runs_programs_as_itself() {
    let control = control_file("7", "local - alice@x", &ONE).replace("bob@x 0", "bob@x 1");
    let spool = spool_with(&control, "body\n");
    let path = script(&spool, "script", RIGHTS);
    let words = ["-c", "pipe", "--command", "/bin/sh", &path];
    let Some(answers) = spool.ordinary_session(PIPE, &words, "7\th\n") else { return };
    assert!(answers.contains("\tok3 "), "{answers}");
    let seen = spool.read("out/rights");
    let own = if is_root() {
        "65534 ".to_string()
    } else {
        format!("{} ", zsched_sys::users::effective_user())
    };
    assert!(seen.starts_with(&own), "{seen}");
}
