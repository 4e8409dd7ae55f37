fn main() {
    println!("hello, {}", std::env::args().next().unwrap_or_default());
}
