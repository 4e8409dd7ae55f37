;; attack: is a program for the machine itself
;; expect: admission refused: not WebAssembly: it starts with 7f 45 4c 46
;; generate: elf
