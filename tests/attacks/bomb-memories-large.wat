;; attack: ten memories of 1 GiB
;; expect: admission refused: bytes of memory before any turn
;; generate: memories count=10 pages=16384
