#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (zsched_fuzz::find("auth_file").run)(bytes));
