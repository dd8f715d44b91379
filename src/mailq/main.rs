//! Shows the queue of a running scheduler.

fn main() {
    std::process::exit(zsched_mailq::main(zsched_mailq::MailqOptions::from_command_line()));
}
