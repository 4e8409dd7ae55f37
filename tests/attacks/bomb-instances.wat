;; attack: six components in each other, each with a hundred of the next: a million million instances
;; expect: admission refused: instances, with those inside them
;; generate: instances levels=6 fan=100
