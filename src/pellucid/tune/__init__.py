"""The loop's mind: what may be tried, what is proposed, what a trial showed. It decides; verbs act."""
