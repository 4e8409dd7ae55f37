;; attack: is nothing
;; expect: admission refused: not WebAssembly: it starts with nothing
;; generate: empty-file
