//! The program `sendmail`.

fn main() {
    std::process::exit(zsched_submit::sendmail::main())
}
