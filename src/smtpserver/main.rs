//! Takes mail by SMTP.

fn main() {
    zsched_service::reset_inherited_state_or_exit("smtpserver");
    std::process::exit(zsched_smtpserver::main(&zsched_command_line::parse()));
}
