;; attack: components inside that hand each other values of as many parts as may be
;; expect: admission refused: can't be born: failed to convert function
;; generate: adapters count=25 parts=10000
