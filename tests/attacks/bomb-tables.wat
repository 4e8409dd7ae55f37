;; attack: sixty tables of a million elements each, to be laid out at each wake
;; expect: admission refused: can't be born: table
;; generate: tables count=60 elements=1048576
